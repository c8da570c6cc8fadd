"""Taking turns at a repository or a folder, also with other processes."""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

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
