"""A checkout whose files a killed git has left between two commits is put back.

Git writes the files of a checkout first and moves the branch last. Whoever kills it in between
leaves files that look like changes of the user's, and a lock that nobody holds.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from shiftboss.orchestrator.git import checked, run_git
from shiftboss.orchestrator.repo import GitRepo

_GONE: Final = "0" * 40


class _Change(NamedTuple):
    path: str
    old: str
    new: str


class HalfMoved:
    """A note lies in the repository for as long as a git is at it. It is read under the lock that
    this git holds as well: then it has ended."""

    def __init__(self, repo: GitRepo) -> None:
        self._repo = repo
        self._note = repo.common / "shiftboss" / "landing.json"

    async def begin(self, folder: Path, old: str, new: str) -> None:
        words = {"folder": str(folder), "old": old, "new": new}
        await asyncio.to_thread(self._note.write_text, json.dumps(words))

    async def ended(self) -> None:
        await asyncio.to_thread(self._note.unlink, missing_ok=True)

    async def mend(self) -> None:
        note = await asyncio.to_thread(self._read)
        if note is None:
            return
        folder = Path(note["folder"])
        if await asyncio.to_thread(folder.is_dir):
            await self._unlock(folder)
            if await self._head(folder) == note["old"]:
                await self._put_back(folder, note["old"], note["new"])
        await self.ended()

    def _read(self) -> dict[str, Any] | None:
        try:
            note = json.loads(self._note.read_text())
            return note if {"folder", "old", "new"} <= note.keys() else None
        except (OSError, ValueError, AttributeError):
            return None

    async def _unlock(self, folder: Path) -> None:
        said = await run_git(
            ["rev-parse", "--path-format=absolute", "--git-path", "index.lock"], folder
        )
        lock = Path(checked(said, f"the index of {folder}"))
        await asyncio.to_thread(_remove_if_newer, lock, self._note)

    async def _head(self, folder: Path) -> str:
        said = await run_git(["rev-parse", "HEAD"], folder)
        return checked(said, f"the HEAD of {folder}")

    async def _put_back(self, folder: Path, old: str, new: str) -> None:
        """Only files that are as the new commit has them: nothing else is in there."""
        changes = await self._changes(folder, old, new)
        now = await _ids(folder, [one.path for one in changes])
        written = [one for one in changes if now.get(one.path) == one.new != one.old]
        added = [one.path for one in written if one.old == _GONE]
        await _for_each(folder, ["rm", "--cached", "--quiet", "--ignore-unmatch"], added)
        await asyncio.to_thread(_unlink, folder, added)
        changed = [one.path for one in written if one.old != _GONE]
        await _for_each(folder, ["checkout", "--quiet", old], changed)

    async def _changes(self, folder: Path, old: str, new: str) -> list[_Change]:
        said = await run_git(["diff-tree", "-r", "-z", "--no-renames", old, new], folder)
        words = checked(said, "what was to be changed").split("\0")
        return [
            _Change(path, *head.split()[2:4])
            for head, path in zip(words[0::2], words[1::2], strict=False)
        ]


def _remove_if_newer(lock: Path, note: Path) -> None:
    """A lock that was made after the note is ours: another git would have ended at it."""
    with contextlib.suppress(OSError):
        if lock.stat().st_mtime_ns >= note.stat().st_mtime_ns:
            lock.unlink()


async def _ids(folder: Path, paths: Sequence[str]) -> dict[str, str]:
    """What git would call the files as they lie there. Links and strange names are left out."""
    there = await asyncio.to_thread(_sorted_out, folder, paths)
    files = [path for path, is_file in there.items() if is_file and "\n" not in path]
    names = "".join(f"{path}\n" for path in files).encode(errors="surrogateescape")
    said = await run_git(["hash-object", "--stdin-paths"], folder, stdin=names)
    ids = checked(said, f"the files of {folder}").split() if files else []
    gone = {path: _GONE for path in paths if path not in there}
    return gone | dict(zip(files, ids, strict=True))


def _sorted_out(folder: Path, paths: Sequence[str]) -> dict[str, bool]:
    """Of those that are there, whether they are files."""
    return {
        path: (folder / path).is_file() and not (folder / path).is_symlink()
        for path in paths
        if os.path.lexists(folder / path)
    }


def _unlink(folder: Path, paths: Sequence[str]) -> None:
    for path in paths:
        (folder / path).unlink(missing_ok=True)


async def _for_each(folder: Path, arguments: Sequence[str], paths: Sequence[str]) -> None:
    if paths:
        said = await run_git(
            [*arguments, "--pathspec-from-file=-", "--pathspec-file-nul"],
            folder,
            stdin="\0".join(paths).encode(errors="surrogateescape"),
        )
        checked(said, f"putting the files of {folder} back")
