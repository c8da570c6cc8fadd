"""Lock files: `flock` locks that a crash releases, between processes and between threads, and
who holds them.

A lock is held for as long as its descriptor is open, here or in a process that inherited it.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import IO, Final, NamedTuple

from shiftboss.errors import EvidenceUnavailable
from shiftboss.system.files import make_folder

EXCLUSIVE_FOLDERS_MAX: Final = 64

_POLL_SECONDS: Final = 0.02
_PAUSE_SECONDS: Final = 0.005
_PAUSE_SECONDS_MAX: Final = 0.1

# One line for each lock: number, type, ADVISORY, access, process, device and inode, range.
_LOCKS: Final = Path("/proc/locks")


class LockHeldError(Exception):
    """Another process or thread holds the lock and did not release it in time."""


def try_lock(path: Path) -> int | None:
    """Lock the file, which is created, and return its descriptor. None: the lock is held."""
    descriptor = _open(path)
    if _try_flock(descriptor):
        return descriptor
    os.close(descriptor)
    return None


@contextmanager
def locked(path: Path, patience_seconds: float) -> Iterator[None]:
    """Hold the lock file. Blocks for at most `patience_seconds`, then raises LockHeldError."""
    deadline = time.monotonic() + patience_seconds
    descriptor = _lock_existing(path)
    while descriptor is None:
        if time.monotonic() >= deadline:
            raise LockHeldError(path)
        time.sleep(_POLL_SECONDS)
        descriptor = _lock_existing(path)
    try:
        yield
    finally:
        os.close(descriptor)


@asynccontextmanager
async def folder_lock(folder: Path, name: str) -> AsyncIterator[int]:
    """Hold the lock of this name in the folder, and wait for it without blocking the event loop.

    A process that inherits the yielded descriptor keeps the lock until it ends.
    """
    descriptor = await asyncio.to_thread(_open_in, folder, name)
    try:
        pause = _PAUSE_SECONDS
        while not _try_flock(descriptor):
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, _PAUSE_SECONDS_MAX)
        yield descriptor
    finally:
        os.close(descriptor)


class ExclusiveFolder(NamedTuple):
    """One of the numbered folders of a place that several processes share."""

    number: int
    lock: IO[bytes]

    def release(self) -> None:
        """Can be repeated."""
        self.lock.close()


def acquire_exclusive_folder(folder: Path) -> ExclusiveFolder:
    """The first number in `folder` that no other process holds.

    After a crash the next start gets the same number again, and so can clear what was left there.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for number in range(EXCLUSIVE_FOLDERS_MAX):
        lock = try_lock(folder / f"{number}.lock")
        if lock is not None:
            return ExclusiveFolder(number, os.fdopen(lock, "wb"))
    raise EvidenceUnavailable(
        f"{EXCLUSIVE_FOLDERS_MAX} servers already use {folder}",
        hint="give this server another --state",
    )


def _open(path: Path, mode: int = 0o600) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, mode)


def _open_in(folder: Path, name: str) -> int:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return _open(folder / f"{name}.lock")


def _try_flock(descriptor: int) -> bool:
    """Whether the lock was free, and is now held by this descriptor."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _lock_existing(path: Path) -> int | None:
    """None when the lock is held, or when its folder was removed in the meantime: then a lock on
    the removed file would exclude nobody."""
    make_folder(path.parent)
    try:
        descriptor = _open(path, 0o644)
    except FileNotFoundError:
        return None
    try:
        if _try_flock(descriptor) and os.fstat(descriptor).st_ino == path.stat().st_ino:
            return descriptor
    except FileNotFoundError:
        pass
    os.close(descriptor)
    return None


def holds_lock(pid: int, path: Path) -> bool:
    """Whether the process has locked the file with `flock`, for itself alone."""
    try:
        inode = path.stat().st_ino
        lines = _LOCKS.read_text().splitlines()
    except FileNotFoundError:
        return _is_locked(path)
    except OSError:
        return False
    return any(_is_lock_of(line.split(), pid, inode) for line in lines)


def _is_lock_of(fields: list[str], pid: int, inode: int) -> bool:
    """The device is not compared: some file systems report another one to `stat`. A process that
    waits for a lock has an arrow in front of its type."""
    if len(fields) < 6 or (fields[1], fields[3]) != ("FLOCK", "WRITE"):
        return False
    return fields[4] == str(pid) and fields[5].rpartition(":")[2] == str(inode)


def _is_locked(path: Path) -> bool:
    """Without a list of locks: whether any process has locked the file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False
