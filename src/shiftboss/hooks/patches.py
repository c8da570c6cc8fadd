"""Which files a patch changes, in the two forms that agents write."""

from __future__ import annotations

from typing import Final

_BEGIN: Final = "*** Begin Patch"
_HEADS: Final = ("*** Add File:", "*** Update File:", "*** Delete File:", "*** Move to:")
_MOVES: Final = ("rename from ", "rename to ", "copy to ")


def paths_of_patch(text: str) -> list[str]:
    """Of the form that begins with `*** Begin Patch`; none for other texts."""
    if _BEGIN not in text:
        return []
    lines = text[text.index(_BEGIN) :].splitlines()
    found = (line.strip().partition(":")[2] for line in lines if line.strip().startswith(_HEADS))
    return [path.strip() for path in found if path.strip()]


def paths_of_diff(text: str, strip: int) -> list[str]:
    """Of a unified diff, without the first `strip` folders."""
    lines = text.splitlines()
    found = []
    for at, line in enumerate(lines):
        if line.startswith("--- ") and at + 1 < len(lines) and lines[at + 1].startswith("+++ "):
            names = (line[4:], lines[at + 1][4:])
            found += [_stripped(one.partition("\t")[0].strip(), strip) for one in names]
        elif line.startswith(_MOVES):
            found.append(line[next(len(one) for one in _MOVES if line.startswith(one)) :])
    return [one for one in dict.fromkeys(found) if one and one != "/dev/null"]


def _stripped(name: str, strip: int) -> str:
    if name == "/dev/null":
        return name
    return "/".join(name.strip('"').split("/")[strip:])
