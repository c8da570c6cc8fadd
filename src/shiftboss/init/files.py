"""Changing several files together: all of them, or none."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from shiftboss.errors import InvalidRequest


@dataclass(frozen=True, slots=True)
class PlannedChange:
    """The contents of one file before and after; None stands for a missing file. `name` is what
    people see, `path` is where the file really is."""

    name: str
    path: Path
    before: bytes | None
    after: bytes | None

    @property
    def action(self) -> str:
        if self.before is None:
            return "create"
        return "delete" if self.after is None else "change"


def read_if_there(path: Path, name: str) -> bytes | None:
    try:
        if path.exists() and not path.is_file():
            raise InvalidRequest(f"{name} is not a file", field=name, hint="move it away")
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InvalidRequest(
            f"{name} cannot be read: {error.strerror}",
            field=name,
            hint="check its permissions; nothing was changed",
        ) from error


def apply(changes: Sequence[PlannedChange], top: Path) -> None:
    """Every file is written beside its place first and then moved there. Folders that are empty
    afterwards are removed, up to `top`. Raises InvalidRequest after undoing everything."""
    transaction = _Transaction(top)
    name = ""
    try:
        for change in changes:
            name = change.name
            transaction.stage(change)
        for change in changes:
            name = change.name
            transaction.move(change)
    except OSError as error:
        transaction.undo()
        raise InvalidRequest(
            f"{name} cannot be written: {error.strerror}; nothing was changed",
            field=name,
            hint="make the file and its folder writable",
        ) from error
    transaction.remove_empty(change.path.parent for change in changes if change.after is None)


@dataclass(slots=True)
class _Transaction:
    top: Path
    staged: dict[Path, Path] = field(default_factory=dict)
    moved: list[PlannedChange] = field(default_factory=list)
    folders: list[Path] = field(default_factory=list)

    def stage(self, change: PlannedChange) -> None:
        if change.after is None:
            if not os.access(change.path.parent, os.W_OK):
                raise PermissionError(13, "Permission denied")
            return
        self._make(change.path.parent)
        self.staged[change.path] = _write_beside(change.path, change.after)

    def _make(self, folder: Path) -> None:
        if not folder.is_dir():
            self._make(folder.parent)
            folder.mkdir()
            self.folders.append(folder)

    def move(self, change: PlannedChange) -> None:
        if change.after is None:
            change.path.unlink()
        else:
            self.staged[change.path].replace(change.path)
            del self.staged[change.path]
        self.moved.append(change)

    def undo(self) -> None:
        for partial in self.staged.values():
            with suppress(OSError):
                partial.unlink()
        for change in self.moved:
            with suppress(OSError):
                if change.before is None:
                    change.path.unlink()
                else:
                    _write_beside(change.path, change.before).replace(change.path)
        self.remove_empty(reversed(self.folders))

    def remove_empty(self, folders: Iterable[Path]) -> None:
        for folder in folders:
            with suppress(OSError):  # not empty
                while folder != self.top:
                    folder.rmdir()
                    folder = folder.parent  # noqa: PLW2901 -- on to the parent


def _write_beside(path: Path, content: bytes) -> Path:
    """Write a complete file, with the permissions of the one that it will replace."""
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            if path.exists():
                os.fchmod(file.fileno(), stat.S_IMODE(path.stat().st_mode))
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        partial.unlink()
        raise
    return partial
