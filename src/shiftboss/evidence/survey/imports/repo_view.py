"""A commit as the import rules see it: all names, and the texts that were loaded beforehand."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, TypeVar

T = TypeVar("T")


class RepoView:
    """Paths are relative to the top of the repo; the top itself is the empty string."""

    def __init__(self, files: Iterable[str], texts: Mapping[str, str]) -> None:
        self.files = frozenset(files)
        self._texts = texts
        self._made: dict[Callable[[RepoView], Any], Any] = {}

    def read(self, name: str) -> str | None:
        """The text of a file, or None where it is not there or was not loaded."""
        return self._texts.get(name)

    @cached_property
    def by_folder(self) -> Mapping[str, list[str]]:
        """The files that lie directly in each folder."""
        folders: dict[str, list[str]] = {}
        for name in sorted(self.files):
            folders.setdefault(posixpath.dirname(name), []).append(name)
        return folders

    def once(self, build: Callable[[RepoView], T]) -> T:
        """What `build` makes of this commit, made once: an index that every file needs."""
        if build not in self._made:
            self._made[build] = build(self)
        made: T = self._made[build]
        return made

    def named(self, name: str) -> list[str]:
        """The loaded files of that name, the shallowest first."""
        found = [path for path in self._texts if posixpath.basename(path) == name]
        return sorted(found, key=lambda path: (path.count("/"), path))

    def nearest(self, folder: str, *names: str) -> str | None:
        """The first of the names that is found in the folder or, failing that, further up."""
        for above in self_and_above(folder):
            for name in names:
                if (path := posixpath.join(above, name)) in self.files:
                    return path
        return None


def self_and_above(folder: str) -> Iterator[str]:
    """`a/b`, `a` and the top."""
    while folder:
        yield folder
        folder = posixpath.dirname(folder)
    yield ""


def joined(folder: str, relative: str) -> str | None:
    """The path that `relative` names, seen from the folder; None where it leaves the repo."""
    path = posixpath.normpath(posixpath.join(folder, relative))
    if path.startswith(("/", "../")) or path == "..":
        return None
    return "" if path == "." else path
