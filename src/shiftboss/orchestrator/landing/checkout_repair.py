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

from shiftboss.orchestrator.git.checkouts import UserCheckout
from shiftboss.orchestrator.git.repository import GitRepo
from shiftboss.orchestrator.git.runner import checked

_GONE: Final = "0" * 40


class _Change(NamedTuple):
    path: str
    old: str
    new: str


class CheckoutRepair:
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
            checkout = await asyncio.to_thread(UserCheckout.at, folder)
            await asyncio.to_thread(_remove_if_newer, checkout.admin / "index.lock", self._note)
            if await self._head(checkout) == note["old"]:
                await self._put_back(checkout, note["old"], note["new"])
        await self.ended()

    def _read(self) -> dict[str, Any] | None:
        try:
            note = json.loads(self._note.read_text())
            return note if {"folder", "old", "new"} <= note.keys() else None
        except (OSError, ValueError, AttributeError):
            return None

    async def _head(self, checkout: UserCheckout) -> str:
        said = await checkout.run(["rev-parse", "HEAD"])
        return checked(said, f"the HEAD of {checkout.folder}")

    async def _put_back(self, checkout: UserCheckout, old: str, new: str) -> None:
        """Only files that are as the new commit has them: nothing else is in there."""
        changes = await self._changes(checkout, old, new)
        now = await _ids(checkout, [one.path for one in changes])
        written = [one for one in changes if now.get(one.path) == one.new != one.old]
        added = [one.path for one in written if one.old == _GONE]
        await _for_each(checkout, ["rm", "--cached", "--quiet", "--ignore-unmatch"], added)
        await asyncio.to_thread(_unlink, checkout.folder, added)
        changed = [one.path for one in written if one.old != _GONE]
        await _for_each(checkout, ["checkout", "--quiet", old], changed)

    async def _changes(self, checkout: UserCheckout, old: str, new: str) -> list[_Change]:
        said = await checkout.run(["diff-tree", "-r", "-z", "--no-renames", old, new])
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


async def _ids(checkout: UserCheckout, paths: Sequence[str]) -> dict[str, str]:
    """What git would call the files as they lie there. Links and strange names are left out."""
    there = await asyncio.to_thread(_sorted_out, checkout.folder, paths)
    files = [path for path, is_file in there.items() if is_file and "\n" not in path]
    names = "".join(f"{path}\n" for path in files).encode(errors="surrogateescape")
    said = await checkout.run(["hash-object", "--stdin-paths"], stdin=names)
    ids = checked(said, f"the files of {checkout.folder}").split() if files else []
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


async def _for_each(checkout: UserCheckout, arguments: Sequence[str], paths: Sequence[str]) -> None:
    if paths:
        said = await checkout.run(
            [*arguments, "--pathspec-from-file=-", "--pathspec-file-nul"],
            stdin="\0".join(paths).encode(errors="surrogateescape"),
        )
        checked(said, f"putting the files of {checkout.folder} back")
