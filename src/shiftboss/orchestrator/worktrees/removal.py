"""Taking down work trees, whatever their agents have made of them."""

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
from shiftboss.system.file_locks import turn

_OURS: Final = re.compile(r"[0-9a-f]{32}")


class WorktreeRemoval:
    """`folder` is where trees go before they are gone, on the same disk as they are. Several
    processes may remove the same things from it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._removals: set[asyncio.Task[None]] = set()

    async def leftovers(self) -> None:
        """What an earlier process has not got rid of."""
        for path in await asyncio.to_thread(_entries, self._folder):
            self._start(path)

    async def folder(self, path: Path) -> None:
        """It is out of the way when this returns, and gone a little later."""
        gone = self._folder / uuid.uuid4().hex
        await asyncio.to_thread(self._folder.mkdir, mode=0o700, parents=True, exist_ok=True)
        if await asyncio.to_thread(_put_aside, path, gone):
            self._start(gone)

    async def registration(self, tree: Worktree) -> None:
        """What git keeps of a tree. At once or not at all: others read it."""
        gone = tree.common / "shiftboss" / f"gone-{uuid.uuid4().hex}"
        async with turn(tree.common / "shiftboss", "trees"):
            await asyncio.to_thread(_put_aside, tree.admin, gone)
        await asyncio.to_thread(shutil.rmtree, gone, ignore_errors=True)

    async def close(self) -> None:
        """Wait until everything is gone."""
        await asyncio.gather(*self._removals)

    def _start(self, path: Path) -> None:
        removal = asyncio.create_task(remove_tree(path))
        self._removals.add(removal)
        removal.add_done_callback(self._removals.discard)


def _entries(folder: Path) -> list[Path]:
    """Those that we have put aside."""
    entries = folder.iterdir() if folder.is_dir() else ()
    return [one for one in entries if _OURS.fullmatch(one.name)]


def _put_aside(path: Path, gone: Path) -> bool:
    """False: there is nothing to be thrown away. An agent may have put a link in its place."""
    if path.is_symlink() or path.is_file():
        path.unlink()
        return False
    try:
        path.chmod(0o700)  # a folder that may not be written to cannot be moved
        path.rename(gone)
    except FileNotFoundError:
        return False
    return True


# Which folders of work trees were made here. No other is ever removed: the place of the trees is
# named by people, who may keep things of their own there.


class WorktreeMarks:
    """A file for each tree, in a folder of their own. It is there before the tree is, and until
    after the tree has gone."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def set(self, tree: Path) -> None:
        mark = self._mark(tree)
        mark.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        mark.touch()

    def drop(self, tree: Path) -> None:
        self._mark(tree).unlink(missing_ok=True)

    def has(self, tree: Path) -> bool:
        return self._mark(tree).is_file()

    def refuse_foreign(self, tree: Path) -> None:
        """Raises TreeUnavailable when something of somebody else's is there."""
        if os.path.lexists(tree) and not self.has(tree):
            raise TreeUnavailable(
                f"{tree} is there already, and no work tree of ours",
                field="trees",
                hint="move it away, or name another folder for the work trees",
            )

    def _mark(self, tree: Path) -> Path:
        return self._folder / tree.parent.name / tree.name
