"""Several files changed together: all of them, or none."""

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
class Change:
    """`name` is what people call the file, `path` where it really is. None: it is not there."""

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
            raise InvalidRequest(f"{name} is no file", field=name, hint="move it away")
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InvalidRequest(f"{name} cannot be read: {error.strerror}", field=name) from error


def apply(changes: Sequence[Change], top: Path) -> None:
    """Everything is written beside its place first, then moved there. Folders that are empty then
    go too, up to `top`. Raises InvalidRequest; then all is as it was."""
    work = _Work(top)
    name = ""
    try:
        for change in changes:
            name = change.name
            work.stage(change)
        for change in changes:
            name = change.name
            work.move(change)
    except OSError as error:
        work.undo()
        raise InvalidRequest(
            f"{name} cannot be written: {error.strerror}; nothing was changed",
            field=name,
            hint="see to it that the folder can be written to",
        ) from error
    work.tidy(change.path.parent for change in changes if change.after is None)


@dataclass(slots=True)
class _Work:
    top: Path
    staged: dict[Path, Path] = field(default_factory=dict)
    moved: list[Change] = field(default_factory=list)
    folders: list[Path] = field(default_factory=list)

    def stage(self, change: Change) -> None:
        if change.after is None:
            if not os.access(change.path.parent, os.W_OK):
                raise PermissionError(13, "Permission denied")
            return
        self._make(change.path.parent)
        self.staged[change.path] = _written_beside(change.path, change.after)

    def _make(self, folder: Path) -> None:
        if not folder.is_dir():
            self._make(folder.parent)
            folder.mkdir()
            self.folders.append(folder)

    def move(self, change: Change) -> None:
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
                    _written_beside(change.path, change.before).replace(change.path)
        self.tidy(reversed(self.folders))

    def tidy(self, folders: Iterable[Path]) -> None:
        for folder in folders:
            with suppress(OSError):  # it is not empty
                while folder != self.top:
                    folder.rmdir()
                    folder = folder.parent  # noqa: PLW2901 -- upwards


def _written_beside(path: Path, content: bytes) -> Path:
    """A complete file with the rights of the one that it will replace."""
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
