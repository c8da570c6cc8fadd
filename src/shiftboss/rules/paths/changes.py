"""What commits did to paths."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from typing import Final, NamedTuple

from shiftboss.rules.paths.patterns import parents

SYMLINK: Final = "120000"
SUBMODULE: Final = "160000"
NOTHING: Final = "000000"

_DEEDS: Final = {"A": "added", "D": "deleted", "M": "changed", "R": "renamed", "T": "changed"}


class FileChange(NamedTuple):
    """One path. `is_utf8` False: the name cannot be told, and `path` is made of escapes."""

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
        return NOTHING not in (self.old_mode, self.new_mode) and self.old_mode != self.new_mode

    @property
    def deed(self) -> str:
        """What was done, in a word."""
        if self.mode_changed and self.old_blob == self.blob:
            return f"given the mode {self.new_mode}"
        return _DEEDS.get(self.status, "changed")


class NetChange(NamedTuple):
    """From one commit to another, with renames."""

    files: list[FileChange]
    lines_added: int
    lines_deleted: int


class CommitChange(NamedTuple):
    """What one commit did to one path. `is_merge`: what none of its parents has."""

    commit: str
    is_merge: bool
    file: FileChange


# Things in a tree that no owner may make: links that lead out of it, names that fall together.


def link_leads_astray(path: str, target: bytes) -> str | None:
    """Why the link at `path` is refused, to be read after the path. None: it stays in the tree.

    Only the steps at the beginning may go up. After a name they could start from wherever that name
    leads, if it is a link too.
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
                return "is a link that leads out of the repository"
        else:
            went_down = True
            if step.lower() == b".git":
                return "is a link into .git"
    return None


def collisions(added: Iterable[str], names: Iterable[str]) -> dict[str, str]:
    """Which of the added paths are, but for letter case or Unicode form, another path of the tree.

    On some file systems the two would be one file. Folders count, too.
    """
    ours: dict[str, list[tuple[str, str]]] = {}
    for path in added:
        for part in (path, *parents(path)):
            ours.setdefault(_folded(part), []).append((part, path))
    found: dict[str, str] = {}
    looked_at: set[str] = set()
    for name in names:
        for part in (name, *parents(name)):
            if part in looked_at:
                break  # and so have been the folders above
            looked_at.add(part)
            for mine, path in ours.get(_folded(part), []):
                if mine != part:
                    found.setdefault(path, part)
    return found


def _folded(name: str) -> str:
    return name.casefold() if name.isascii() else unicodedata.normalize("NFC", name).casefold()
