"""Folders of which each is one server's own, where several share a place."""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import IO, Final, NamedTuple

from shiftboss.errors import EvidenceUnavailable

SLOTS_MAX = 64


class ExclusiveDir(NamedTuple):
    """`lock` is held until it is closed or the process ends."""

    number: int
    lock: IO[str]


def hold_slot(folder: Path) -> ExclusiveDir:
    """The first that no other process holds: after a crash, the next start gets the same and
    clears what was left in it."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for number in range(SLOTS_MAX):
        lock = (folder / f"{number}.lock").open("w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
        else:
            return ExclusiveDir(number, lock)
    raise EvidenceUnavailable(
        f"{SLOTS_MAX} servers use {folder}", hint="give this one a --state of its own"
    )


# Taking turns at a repository or a folder, also with other processes.


_PAUSE_SECONDS: Final = 0.005
_PAUSE_SECONDS_MAX: Final = 0.1


@asynccontextmanager
async def turn(folder: Path, name: str) -> AsyncIterator[int]:
    """Nobody else has the turn of this name in this folder meanwhile. A crash gives it back; a
    process that was given the descriptor keeps it until it ends."""
    descriptor = await asyncio.to_thread(_open, folder, name)
    try:
        pause = _PAUSE_SECONDS
        while not _taken(descriptor):
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, _PAUSE_SECONDS_MAX)
        yield descriptor
    finally:
        os.close(descriptor)


def _open(folder: Path, name: str) -> int:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return os.open(folder / f"{name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


# The folder of a verifier, for one verifier at a time: it throws away what it finds there.


@contextmanager
def held_folder(folder: Path) -> Iterator[Path]:
    """Raises EvidenceUnavailable when another verifier has it, or when it cannot be made."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = (folder / "lock").open("w")
    except OSError as error:
        raise EvidenceUnavailable(f"cannot use the folder {folder}: {error.strerror}") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise EvidenceUnavailable(
                f"another verifier has the folder {folder}", hint="give this one another --folder"
            ) from None
        yield folder
