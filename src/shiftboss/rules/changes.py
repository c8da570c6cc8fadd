"""What commits did to paths."""

from __future__ import annotations

from typing import Final, NamedTuple

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
