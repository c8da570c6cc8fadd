"""Removes the folders of work trees, whatever their agents have done to them."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import uuid
from pathlib import Path
from typing import Final

from shiftboss.errors import TreeUnavailable
from shiftboss.orchestrator.worktrees.worktree import Worktree
from shiftboss.system.background_delete import remove_tree
from shiftboss.system.file_locks import folder_lock

_TRASH_NAME: Final = re.compile(r"[0-9a-f]{32}")


class WorktreeRemoval:
    """Moves folders to a trash folder on the same disk, and deletes them in the background. Several
    processes can share a trash folder."""

    def __init__(self, trash: Path) -> None:
        self._trash = trash
        self._deletions: set[asyncio.Task[None]] = set()

    async def delete_leftovers(self) -> None:
        """Delete what an earlier process has left in the trash folder."""
        for path in await asyncio.to_thread(_trash_entries, self._trash):
            self._start_deletion(path)

    async def remove_folder(self, path: Path) -> None:
        """The folder is out of the way when this returns, and deleted a little later."""
        trash = self._trash / uuid.uuid4().hex
        await asyncio.to_thread(self._trash.mkdir, mode=0o700, parents=True, exist_ok=True)
        if await asyncio.to_thread(_move_away, path, trash):
            self._start_deletion(trash)

    async def remove_registration(self, worktree: Worktree) -> None:
        """Remove what git stores about a work tree. A rename makes it atomic for other readers."""
        trash = worktree.common / "shiftboss" / f"gone-{uuid.uuid4().hex}"
        async with folder_lock(worktree.common / "shiftboss", "trees"):
            await asyncio.to_thread(_move_away, worktree.admin, trash)
        await asyncio.to_thread(shutil.rmtree, trash, ignore_errors=True)

    async def close(self) -> None:
        """Wait until everything is deleted."""
        await asyncio.gather(*self._deletions)

    def _start_deletion(self, path: Path) -> None:
        deletion = asyncio.create_task(remove_tree(path))
        self._deletions.add(deletion)
        deletion.add_done_callback(self._deletions.discard)


def _trash_entries(folder: Path) -> list[Path]:
    entries = folder.iterdir() if folder.is_dir() else ()
    return [entry for entry in entries if _TRASH_NAME.fullmatch(entry.name)]


def _move_away(path: Path, trash: Path) -> bool:
    """False if there is nothing to delete. An agent may have replaced the folder with a link."""
    if path.is_symlink() or path.is_file():
        path.unlink()
        return False
    try:
        path.chmod(0o700)  # a folder without write permission cannot be moved
        path.rename(trash)
    except FileNotFoundError:
        return False
    return True


class WorktreeMarks:
    """Marks the folders that were created as work trees: one file for each, which exists from
    before the work tree is created until after it is removed. Other folders are never removed,
    because people choose the folder of the work trees and may keep their own files there."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def set(self, worktree: Path) -> None:
        mark = self._mark(worktree)
        mark.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        mark.touch()

    def delete(self, worktree: Path) -> None:
        self._mark(worktree).unlink(missing_ok=True)

    def has(self, worktree: Path) -> bool:
        return self._mark(worktree).is_file()

    def refuse_foreign(self, worktree: Path) -> None:
        """Raises TreeUnavailable if something else is already there."""
        if os.path.lexists(worktree) and not self.has(worktree):
            raise TreeUnavailable(
                f"{worktree} exists already and is not a work tree of Shiftboss",
                field="trees",
                hint="move it away, or choose another folder for the work trees",
            )

    def _mark(self, worktree: Path) -> Path:
        return self._folder / worktree.parent.name / worktree.name
