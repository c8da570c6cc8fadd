"""Getting rid of folders with many files, without anybody waiting for it."""

from __future__ import annotations

import asyncio
import fcntl
import os
import struct
import sys
from pathlib import Path
from typing import Final

_TRASH: Final = "trash"
_GET_FLAGS: Final = 0x80086601
_SET_FLAGS: Final = 0x40086602
_SPREAD_FLAG: Final = 0x00020000


class BackgroundDelete:
    """A folder for what is used once. What an earlier server left in it is removed, too.

    `writing` is held by whoever writes or removes ten thousand files. Two at once are little faster
    than one after the other, and the commits of the database have to wait for them.
    """

    def __init__(self, folder: Path, writing: asyncio.Lock | None = None) -> None:
        self.folder = folder
        self.writing = writing or asyncio.Lock()
        self._trash = folder / _TRASH
        self._removals: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        for left in await asyncio.to_thread(self._prepare):
            self._start_removal(left)

    async def throw_away(self, folder: Path) -> None:
        """It is out of the way at once, and gone a little later."""
        gone = self._trash / folder.name
        await asyncio.to_thread(_move, folder, gone)
        self._start_removal(gone)

    async def close(self) -> None:
        """Wait until everything is gone."""
        await asyncio.gather(*self._removals)

    def _prepare(self) -> list[Path]:
        """What was left behind, all of it in the trash."""
        self._trash.mkdir(parents=True, exist_ok=True, mode=0o700)
        spread(self.folder)
        for left in [one for one in self.folder.iterdir() if one != self._trash]:
            _move(left, self._trash / left.name)
        return list(self._trash.iterdir())

    def _start_removal(self, folder: Path) -> None:
        removal = asyncio.create_task(self._remove(folder))
        self._removals.add(removal)
        removal.add_done_callback(self._removals.discard)

    async def _remove(self, folder: Path) -> None:
        """By a program of its own, so that the interpreter has time for others."""
        async with self.writing:
            if await _run("rm", "-rf", "--", str(folder)) != 0:
                # Commands may have taken the right to write from folders.
                await _run("chmod", "-R", "u+rwX", "--", str(folder))
                await _run("rm", "-rf", "--", str(folder))


def _move(folder: Path, gone: Path) -> None:
    if folder.exists():
        folder.chmod(0o700)  # a folder that may not be written to cannot be moved
        folder.rename(gone)


async def _run(*argv: str) -> int:
    quiet = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(*argv, stdin=quiet, stdout=quiet, stderr=quiet)
    return await process.wait()


def spread(folder: Path) -> None:
    """Ask ext4 to put each folder in here in a place of its own.

    Without a journal it passes over every file that was deleted lately before it makes a new one.
    Ten thousand files take seconds then, when ten thousand were deleted in the same place.
    """
    if sys.platform != "linux":
        return
    try:
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return
    try:
        (flags,) = struct.unpack("L", fcntl.ioctl(opened, _GET_FLAGS, b"\0" * 8))
        fcntl.ioctl(opened, _SET_FLAGS, struct.pack("L", flags | _SPREAD_FLAG))
    except OSError:
        pass  # another file system, which does without
    finally:
        os.close(opened)
