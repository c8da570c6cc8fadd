"""Which paths a list of patterns covers.

A pattern is a path (`src/a.py`; it covers what is below it, should it be a directory), a directory
(`src/auth/`) or a glob: `*` and `?` stay within a segment, `**` stands for any number of whole
segments. Everything else is itself: dots, and the brackets of `app/[id]/page.tsx`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import Final, NamedTuple

ANY: Final = "**"
_WILD: Final = re.compile(r"[*?]")
_STARS: Final = re.compile(r"\*{2,}")
_DRIVE: Final = re.compile(r"[A-Za-z]:/")
_ABSOLUTE: Final = "is absolute; paths start at the top of the repository"


def normalised(path: str) -> str:
    """The one way to write a path or pattern. A slash at its end is kept: it says "directory".

    For what people and agents write: a backslash or a drive is a slip of theirs, though git can
    hold such names. Raises ValueError with the reason when the path cannot be one of a repository.
    """
    if "\\" in path:
        raise ValueError("holds a backslash; write / between the segments")
    if _DRIVE.match(path):
        raise ValueError(_ABSOLUTE)
    return as_written(path)


def as_written(path: str) -> str:
    """The same for names that come from git, where a backslash is a letter like any other."""
    if not path:
        raise ValueError("is empty")
    if "\0" in path:
        raise ValueError("holds a NUL")
    if path.startswith("/"):
        raise ValueError(_ABSOLUTE)
    segments = [
        one for one in unicodedata.normalize("NFC", path).split("/") if one not in ("", ".")
    ]
    if not segments:
        raise ValueError("is empty; write ** for everything")
    if ".." in segments:
        raise ValueError("leaves its folder by ..")
    if any(one.casefold() == ".git" for one in segments):
        raise ValueError("is inside of .git")
    return "/".join(segments) + ("/" if path.endswith(("/", "/.")) else "")


class Pattern(NamedTuple):
    """A pattern as it was written, and as segments: globs, and `**` for any number of them."""

    text: str
    segments: tuple[str, ...]
    is_glob: bool

    @property
    def name(self) -> str:
        """The path of a pattern that is no glob."""
        return self.text.removesuffix("/")


def pattern_of(text: str, *, case_insensitive: bool = False) -> Pattern:
    """Raises ValueError with the reason for what can be no pattern."""
    name = as_written(text)
    if case_insensitive:
        name = name.casefold()
    parts = [one if one == ANY else _STARS.sub("*", one) for one in name.strip("/").split("/")]
    is_glob = _WILD.search(name) is not None
    if name.endswith("/"):
        parts += ["*", ANY]
    elif not is_glob:
        parts.append(ANY)
    elif parts[-1] == ANY:
        # `src/**` is what is below src, and not src itself.
        parts[-1:] = ["*", ANY]
    segments = [one for at, one in enumerate(parts) if one != ANY or parts[at - 1 : at] != [ANY]]
    return Pattern(name, tuple(segments), is_glob)


class Scope:
    """A set of patterns. Paths that are no path of a repository are never covered."""

    def __init__(self, patterns: Iterable[str], *, case_insensitive: bool = False) -> None:
        made = [pattern_of(one, case_insensitive=case_insensitive) for one in patterns]
        plain = [one for one in made if not one.is_glob]
        self._case_insensitive = case_insensitive
        self._named = {one.text for one in plain if not one.text.endswith("/")}
        self._folders = {one.name for one in plain}
        globs = [_expression(one.segments) for one in made if one.is_glob]
        self._globs = re.compile("|".join(globs), re.DOTALL) if globs else None

    def covers(self, path: str) -> bool:
        name = self._name(path)
        if name is None:
            return False
        if name in self._named or any(above in self._folders for above in parents(name)):
            return True
        return self._globs is not None and self._globs.match(name + "/") is not None

    def names_exactly(self, path: str) -> bool:
        """Whether the path itself is listed, and not by a glob or a directory."""
        return self._name(path) in self._named

    def _name(self, path: str) -> str | None:
        try:
            name = as_written(path).removesuffix("/")
        except ValueError:
            return None
        return name.casefold() if self._case_insensitive else name


def parents(name: str) -> list[str]:
    """The folders above a path, the nearest first."""
    found = []
    at = name.rfind("/")
    while at > 0:
        found.append(name[:at])
        at = name.rfind("/", 0, at)
    return found


def _expression(segments: tuple[str, ...]) -> str:
    """For paths with a slash after every segment.

    The first place where a run of segments (or of letters) fits is as good as any later one, so all
    but the last are atomic: no pattern makes the time explode.
    """
    runs: list[str] = [""]
    for one in segments:
        if one == ANY:
            runs.append("")
        else:
            runs[-1] += _segment_expression(one) + "/"
    if len(runs) == 1:
        return runs[0] + r"\Z"
    middle = "".join(f"(?>(?:[^/]+/)*?{run})" for run in runs[1:-1])
    end = rf"(?:[^/]+/)*{runs[-1]}\Z" if runs[-1] else ""
    return runs[0] + middle + end


def _segment_expression(segment: str) -> str:
    if segment == "*":
        return "[^/]+"
    first, *rest = (re.escape(one).replace(r"\?", "[^/]") for one in segment.split("*"))
    middle = "".join(f"(?>[^/]*?{one})" for one in rest[:-1])
    return first + middle + (f"[^/]*{rest[-1]}" if rest else "")
