"""The files that a patch changes, in the two formats that agents write."""

from __future__ import annotations

from typing import Final

_BEGIN: Final = "*** Begin Patch"
_HEADS: Final = ("*** Add File:", "*** Update File:", "*** Delete File:", "*** Move to:")
_MOVES: Final = ("rename from ", "rename to ", "copy to ")


def paths_of_patch(text: str) -> list[str]:
    """The paths in a text that contains `*** Begin Patch`; none for other texts."""
    if _BEGIN not in text:
        return []
    lines = text[text.index(_BEGIN) :].splitlines()
    paths = (line.strip().partition(":")[2] for line in lines if line.strip().startswith(_HEADS))
    return [path.strip() for path in paths if path.strip()]


def paths_of_diff(text: str, strip: int) -> list[str]:
    """The paths in a unified diff, without their first `strip` folders."""
    lines = text.splitlines()
    paths = []
    for at, line in enumerate(lines):
        if line.startswith("--- ") and at + 1 < len(lines) and lines[at + 1].startswith("+++ "):
            names = (line[4:], lines[at + 1][4:])
            paths += [_stripped(name.partition("\t")[0].strip(), strip) for name in names]
        elif line.startswith(_MOVES):
            paths.append(line[next(len(move) for move in _MOVES if line.startswith(move)) :])
    return [path for path in dict.fromkeys(paths) if path and path != "/dev/null"]


def _stripped(name: str, strip: int) -> str:
    if name == "/dev/null":
        return name
    return "/".join(name.strip('"').split("/")[strip:])
