"""Path patterns: how they are written, and which paths they cover.

A pattern is a path (`src/a.py`, which also covers everything below it if it is a directory), a
directory (`src/auth/`) or a glob. In a glob, `*` and `?` match within a segment, and `**` matches
any number of whole segments. All other characters are literal: dots, and the brackets of
`app/[id]/page.tsx`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from typing import Final, NamedTuple

ANY: Final = "**"
_WILD: Final = re.compile(r"[*?]")
_STARS: Final = re.compile(r"\*{2,}")
_WILDCARDS: Final = re.compile(r"[*?]+")
# More are a mistake or an attack: they make it expensive to compare patterns.
WILDCARDS_MAX: Final = 16
# The limit of file systems.
_NAME_CHARACTERS_MAX: Final = 255
_DRIVE: Final = re.compile(r"[A-Za-z]:/")
_ABSOLUTE: Final = "is absolute; write it relative to the top of the repository"


def normalize_path(path: str) -> str:
    """The normal form of a path or pattern that a person or an agent wrote.

    A trailing slash is kept, because it means "directory". Backslashes and drive letters are
    rejected as mistakes, although git allows them in names. Raises ValueError with the reason if
    this cannot be a path of a repository; the reason reads well after the path.
    """
    if "\\" in path:
        raise ValueError("contains a backslash; separate the segments with /")
    if _DRIVE.match(path):
        raise ValueError(_ABSOLUTE)
    return normalize_git_path(path)


def normalize_git_path(path: str) -> str:
    """The normal form of a path that comes from git, where a backslash is an ordinary character."""
    if not path:
        raise ValueError("is empty")
    if "\0" in path:
        raise ValueError("contains a NUL character")
    if path.startswith("/"):
        raise ValueError(_ABSOLUTE)
    segments = [
        segment
        for segment in unicodedata.normalize("NFC", path).split("/")
        if segment not in ("", ".")
    ]
    if not segments:
        raise ValueError("is empty; write ** for the whole repository")
    if ".." in segments:
        raise ValueError("contains ..; write the path without it")
    if any(segment.casefold() == ".git" for segment in segments):
        raise ValueError("is inside .git")
    return "/".join(segments) + ("/" if path.endswith(("/", "/.")) else "")


def count_wildcards(pattern: str) -> int:
    """A run such as `**` or `???` counts once."""
    return len(_WILDCARDS.findall(pattern))


def check_wildcards(pattern: str) -> None:
    """Raises ValueError with the reason if the pattern is too complex."""
    if count_wildcards(pattern) > WILDCARDS_MAX:
        raise ValueError(f"has more than {WILDCARDS_MAX} wildcards; name a folder instead")
    segments = pattern.split("/")
    if any(len(name) > _NAME_CHARACTERS_MAX and _WILD.search(name) for name in segments):
        raise ValueError(f"has a name of more than {_NAME_CHARACTERS_MAX} characters")


class Pattern(NamedTuple):
    """`text` is the normal form; `segments` are globs, and `**` for any number of segments."""

    text: str
    segments: tuple[str, ...]
    is_glob: bool

    @property
    def name(self) -> str:
        """The path of a pattern that is not a glob."""
        return self.text.removesuffix("/")


@lru_cache(maxsize=8192)
def pattern_of(text: str, *, case_insensitive: bool = False) -> Pattern:
    """Raises ValueError with the reason if `text` is not a valid pattern."""
    name = normalize_git_path(text)
    if case_insensitive:
        name = name.casefold()
    parts = [part if part == ANY else _STARS.sub("*", part) for part in name.strip("/").split("/")]
    is_glob = _WILD.search(name) is not None
    if name.endswith("/"):
        parts += ["*", ANY]
    elif not is_glob:
        parts.append(ANY)
    elif parts[-1] == ANY:
        # `src/**` covers what is below src, but not src itself.
        parts[-1:] = ["*", ANY]
    segments = [part for at, part in enumerate(parts) if part != ANY or parts[at - 1 : at] != [ANY]]
    return Pattern(name, tuple(segments), is_glob)


class Scope:
    """A set of patterns. It never covers text that is not a path of a repository."""

    def __init__(self, patterns: Iterable[str], *, case_insensitive: bool = False) -> None:
        parsed = [pattern_of(text, case_insensitive=case_insensitive) for text in patterns]
        plain = [pattern for pattern in parsed if not pattern.is_glob]
        self._case_insensitive = case_insensitive
        self._named = {pattern.text for pattern in plain if not pattern.text.endswith("/")}
        self._folders = {pattern.name for pattern in plain}
        globs = [_expression(pattern.segments) for pattern in parsed if pattern.is_glob]
        self._globs = re.compile("|".join(globs), re.DOTALL) if globs else None

    def covers(self, path: str) -> bool:
        name = self._name(path)
        if name is None:
            return False
        if name in self._named or any(above in self._folders for above in parents(name)):
            return True
        return self._globs is not None and self._globs.match(name + "/") is not None

    def names_exactly(self, path: str) -> bool:
        """Whether a pattern names the path itself, not just a glob or folder that covers it."""
        return self._name(path) in self._named

    def _name(self, path: str) -> str | None:
        try:
            name = normalize_git_path(path).removesuffix("/")
        except ValueError:
            return None
        return name.casefold() if self._case_insensitive else name


def parents(name: str) -> list[str]:
    """The folders above a path, nearest first."""
    folders = []
    at = name.rfind("/")
    while at > 0:
        folders.append(name[:at])
        at = name.rfind("/", 0, at)
    return folders


def _expression(segments: tuple[str, ...]) -> str:
    """A regular expression for paths that have a slash after every segment.

    The first match of a run of segments (or characters) is as good as any later one. So every run
    but the last is an atomic group, and no pattern causes catastrophic backtracking.
    """
    runs: list[str] = [""]
    for segment in segments:
        if segment == ANY:
            runs.append("")
        else:
            runs[-1] += _segment_expression(segment) + "/"
    if len(runs) == 1:
        return runs[0] + r"\Z"
    middle = "".join(f"(?>(?:[^/]+/)*?{run})" for run in runs[1:-1])
    end = rf"(?:[^/]+/)*{runs[-1]}\Z" if runs[-1] else ""
    return runs[0] + middle + end


def _segment_expression(segment: str) -> str:
    if segment == "*":
        return "[^/]+"
    first, *rest = (re.escape(part).replace(r"\?", "[^/]") for part in segment.split("*"))
    middle = "".join(f"(?>[^/]*?{part})" for part in rest[:-1])
    return first + middle + (f"[^/]*{rest[-1]}" if rest else "")
