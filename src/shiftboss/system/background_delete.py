"""Deleting folders with many files in the background, so that nothing waits for it."""

from __future__ import annotations

import asyncio
import fcntl
import os
import struct
import sys
from pathlib import Path
from typing import Final

from shiftboss.system.processes.child_process import run_silently

_TRASH: Final = "trash"
# ioctl numbers of Linux, and the flag of ext4 that `chattr +T` sets.
_GET_FLAGS: Final = 0x80086601
_SET_FLAGS: Final = 0x40086602
_SPREAD_FLAG: Final = 0x00020000


class BackgroundDelete:
    """A folder for temporary folders. What an earlier server left in it is deleted, too.

    `writing` is held while ten thousand files are written or deleted. Two such jobs at once are
    hardly faster than one after the other, and commits of the database would have to wait for both.
    """

    def __init__(self, folder: Path, writing: asyncio.Lock | None = None) -> None:
        self.folder = folder
        self.writing = writing or asyncio.Lock()
        self._trash = folder / _TRASH
        self._removals: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        for leftover in await asyncio.to_thread(self._collect_leftovers):
            self._start_removal(leftover)

    async def discard(self, folder: Path) -> None:
        """Move the folder to the trash at once, and delete it a little later."""
        trashed = self._trash / folder.name
        await asyncio.to_thread(_move, folder, trashed)
        self._start_removal(trashed)

    async def close(self) -> None:
        """Wait until everything is deleted."""
        await asyncio.gather(*self._removals)

    def _collect_leftovers(self) -> list[Path]:
        """Move all that was left behind to the trash, and list the trash."""
        self._trash.mkdir(parents=True, exist_ok=True, mode=0o700)
        spread_subfolders(self.folder)
        for leftover in [path for path in self.folder.iterdir() if path != self._trash]:
            _move(leftover, self._trash / leftover.name)
        return list(self._trash.iterdir())

    def _start_removal(self, folder: Path) -> None:
        removal = asyncio.create_task(self._remove(folder))
        self._removals.add(removal)
        removal.add_done_callback(self._removals.discard)

    async def _remove(self, folder: Path) -> None:
        async with self.writing:
            await remove_tree(folder)


async def remove_tree(folder: Path) -> None:
    """Delete a folder with `rm`, because a million files would keep the interpreter busy."""
    if await run_silently("rm", "-rf", "--", str(folder)) != 0:
        # Commands may have made folders read-only.
        await run_silently("chmod", "-R", "u+rwX", "--", str(folder))
        await run_silently("rm", "-rf", "--", str(folder))


def spread_subfolders(folder: Path) -> None:
    """Ask ext4 to place each subfolder in a block group of its own.

    Without a journal, ext4 skips every recently deleted inode before it creates a file. Creating
    ten thousand files takes seconds if ten thousand were just deleted in the same block group.
    """
    if sys.platform != "linux":
        return
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return
    try:
        (flags,) = struct.unpack("L", fcntl.ioctl(descriptor, _GET_FLAGS, b"\0" * 8))
        fcntl.ioctl(descriptor, _SET_FLAGS, struct.pack("L", flags | _SPREAD_FLAG))
    except OSError:
        pass  # another file system, which does not need it
    finally:
        os.close(descriptor)


def _move(folder: Path, target: Path) -> None:
    if folder.exists():
        folder.chmod(0o700)  # a read-only folder cannot be moved
        folder.rename(target)
