"""File changes of commits, and changes that no contract allows: escaping links, colliding names."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from typing import Final, NamedTuple

from shiftboss.rules.paths.patterns import parents

SYMLINK: Final = "120000"
SUBMODULE: Final = "160000"
NO_MODE: Final = "000000"

_VERBS: Final = {"A": "added", "D": "deleted", "M": "changed", "R": "renamed", "T": "changed"}


class FileChange(NamedTuple):
    """The change of one path. If the name is not UTF-8, `path` contains escapes."""

    path: str
    status: str  # A, M, D, R, T
    old_mode: str
    new_mode: str
    old_blob: str
    blob: str
    old_path: str | None = None
    is_utf8: bool = True

    @property
    def paths(self) -> list[str]:
        return [self.path] if self.old_path is None else [self.old_path, self.path]

    @property
    def is_submodule(self) -> bool:
        return SUBMODULE in (self.old_mode, self.new_mode)

    @property
    def mode_changed(self) -> bool:
        return NO_MODE not in (self.old_mode, self.new_mode) and self.old_mode != self.new_mode

    @property
    def action(self) -> str:
        """What was done to the file, for use after "was"."""
        if self.mode_changed and self.old_blob == self.blob:
            return f"given the mode {self.new_mode}"
        return _VERBS.get(self.status, "changed")


class NetChange(NamedTuple):
    """The difference between two commits, with renames."""

    files: list[FileChange]
    lines_added: int
    lines_deleted: int


class CommitChange(NamedTuple):
    """The change of one path by one commit. For a merge, it is a change that no parent has."""

    commit: str
    is_merge: bool
    file: FileChange


def link_violation(path: str, target: bytes) -> str | None:
    """Why the symbolic link at `path` is refused, worded to follow the path. None if it is allowed.

    Only the first steps may go up. After a name, `..` could start from anywhere, because that name
    could be a link as well.
    """
    if target.startswith(b"/"):
        return "is a link to an absolute path"
    depth = path.count("/")
    went_down = False
    for step in target.split(b"/"):
        if step in (b"", b"."):
            continue
        if step == b"..":
            depth -= 1
            if depth < 0 or went_down:
                return "is a link that points outside the repository"
        else:
            went_down = True
            if step.lower() == b".git":
                return "is a link into .git"
    return None


def collisions(added: Iterable[str], names: Iterable[str]) -> dict[str, str]:
    """The added paths that another path of the tree equals but for letter case or Unicode form.

    On some file systems the two would be one file. Folders are compared as well.
    """
    by_folded: dict[str, list[tuple[str, str]]] = {}
    for path in added:
        for part in (path, *parents(path)):
            by_folded.setdefault(_folded(part), []).append((part, path))
    result: dict[str, str] = {}
    checked: set[str] = set()
    for name in names:
        for part in (name, *parents(name)):
            if part in checked:
                break  # the folders above have been checked too
            checked.add(part)
            for added_part, path in by_folded.get(_folded(part), []):
                if added_part != part:
                    result.setdefault(path, part)
    return result


def _folded(name: str) -> str:
    return name.casefold() if name.isascii() else unicodedata.normalize("NFC", name).casefold()
