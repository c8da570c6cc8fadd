"""A commit as the import rules see it: all paths, and the texts that were loaded before."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, TypeVar

T = TypeVar("T")


class RepoView:
    """Paths are relative to the top folder of the repo, which is the empty string."""

    def __init__(self, files: Iterable[str], texts: Mapping[str, str]) -> None:
        self.files = frozenset(files)
        self._texts = texts
        self._built: dict[Callable[[RepoView], Any], Any] = {}

    def read(self, name: str) -> str | None:
        """The text of a file. None: it is missing or was not loaded."""
        return self._texts.get(name)

    @cached_property
    def by_folder(self) -> Mapping[str, list[str]]:
        """The files of each folder, without those of its subfolders."""
        folders: dict[str, list[str]] = {}
        for name in sorted(self.files):
            folders.setdefault(posixpath.dirname(name), []).append(name)
        return folders

    def once(self, build: Callable[[RepoView], T]) -> T:
        """The result of `build` for this commit, built once: an index that many files need."""
        if build not in self._built:
            self._built[build] = build(self)
        index: T = self._built[build]
        return index

    def named(self, name: str) -> list[str]:
        """The loaded files of that name, the shallowest first."""
        paths = [path for path in self._texts if posixpath.basename(path) == name]
        return sorted(paths, key=lambda path: (path.count("/"), path))

    def nearest(self, folder: str, *names: str) -> str | None:
        """The first of the names that exists in the folder or, failing that, in a parent folder."""
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
    """The path that `relative` means in the folder. None: it is outside the repo."""
    path = posixpath.normpath(posixpath.join(folder, relative))
    if path.startswith(("/", "../")) or path == "..":
        return None
    return "" if path == "." else path
