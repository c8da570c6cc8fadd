"""Files that outlive a crash: written whole or not at all, and on disk before the call returns."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from shiftboss.errors import InvalidRequest

_LOCK_POLL_SECONDS: Final = 0.02


class LockHeldError(Exception):
    """Somebody else has the lock and did not give it back in time."""


def make_folder(folder: Path) -> None:
    if folder.is_dir():
        return
    make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    _sync_folder(folder.parent)


def write_durably(path: Path, content: bytes) -> None:
    """Replace the file. One writer at a time: the temporary name is always the same, so that a
    crash leaves no more than one."""
    temporary = path.with_name(f".{path.name}.tmp")
    with temporary.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    move_durably(temporary, path)


def move_durably(path: Path, target: Path) -> None:
    """Within its folder."""
    path.replace(target)
    _sync_folder(target.parent)


def read_if_there(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def remove_durably(path: Path) -> None:
    path.unlink(missing_ok=True)
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def locked(path: Path, patience_seconds: float) -> Iterator[None]:
    """Hold the lock file, between processes and between threads. Raises LockHeldError."""
    deadline = time.monotonic() + patience_seconds
    descriptor = _take(path)
    while descriptor is None:
        if time.monotonic() >= deadline:
            raise LockHeldError(path)
        time.sleep(_LOCK_POLL_SECONDS)
        descriptor = _take(path)
    try:
        yield
    finally:
        os.close(descriptor)


def _take(path: Path) -> int | None:
    """None when it is held, or is a lock on nothing: its folder was cleaned up meanwhile."""
    make_folder(path.parent)
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(descriptor).st_ino == path.stat().st_ino:
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass
    os.close(descriptor)
    return None


# Files that people write for us: policies and plans.


BYTES_MAX: Final = 4 * 1024 * 1024


def read_text(path: Path, field: str, invalid: type[InvalidRequest]) -> str:
    """Raises `invalid` for what cannot be read, is no text, or is too long."""
    try:
        with path.open("rb") as file:
            content = file.read(BYTES_MAX + 1)
        text = content.decode()
    except OSError as error:
        raise invalid(f"{path} cannot be read: {error.strerror}", field=field) from error
    except UnicodeDecodeError as error:
        raise invalid(f"{path} is not UTF-8: {error.reason}", field=field) from error
    if len(content) > BYTES_MAX:
        raise invalid(f"{path} is longer than {BYTES_MAX} bytes", field=field)
    return text
