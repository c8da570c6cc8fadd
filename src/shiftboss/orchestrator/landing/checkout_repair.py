"""Restores a checkout that a killed git has left between two commits.

Git writes the files of a checkout first and moves the branch last. If it is killed in between, the
files look like changes of the user, and a stale lock is left.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from shiftboss.orchestrator.git.checkouts import GitCheckout
from shiftboss.orchestrator.git.repository import GitRepo
from shiftboss.orchestrator.git.runner import checked

_MISSING: Final = "0" * 40


class _Change(NamedTuple):
    path: str
    old: str
    new: str


class CheckoutRepair:
    """While git updates a checkout, a note in the repository says from which commit to which. The
    note is read under the landing lock, which that git holds too: so it has exited by then."""

    def __init__(self, repo: GitRepo) -> None:
        self._repo = repo
        self._note = repo.common / "shiftboss" / "landing.json"

    async def begin(self, folder: Path, old: str, new: str) -> None:
        note = {"folder": str(folder), "old": old, "new": new}
        await asyncio.to_thread(self._note.write_text, json.dumps(note))

    async def end(self) -> None:
        await asyncio.to_thread(self._note.unlink, missing_ok=True)

    async def repair(self) -> None:
        note = await asyncio.to_thread(self._read_note)
        if note is None:
            return
        folder = Path(note["folder"])
        if await asyncio.to_thread(folder.is_dir):
            checkout = await asyncio.to_thread(GitCheckout.at, folder)
            await asyncio.to_thread(_remove_if_newer, checkout.admin / "index.lock", self._note)
            if await self._head(checkout) == note["old"]:
                await self._restore(checkout, note["old"], note["new"])
        await self.end()

    def _read_note(self) -> dict[str, Any] | None:
        try:
            note = json.loads(self._note.read_text())
            return note if {"folder", "old", "new"} <= note.keys() else None
        except (OSError, ValueError, AttributeError):
            return None

    async def _head(self, checkout: GitCheckout) -> str:
        output = await checkout.run(["rev-parse", "HEAD"])
        return checked(output, f"the HEAD of {checkout.folder}")

    async def _restore(self, checkout: GitCheckout, old: str, new: str) -> None:
        """Only files with exactly the content of the new commit are restored: they hold no work of
        the user."""
        changes = await self._changes(checkout, old, new)
        current = await _object_ids(checkout, [change.path for change in changes])
        written = [
            change for change in changes if current.get(change.path) == change.new != change.old
        ]
        added = [change.path for change in written if change.old == _MISSING]
        await _for_each(checkout, ["rm", "--cached", "--quiet", "--ignore-unmatch"], added)
        await asyncio.to_thread(_unlink, checkout.folder, added)
        changed = [change.path for change in written if change.old != _MISSING]
        await _for_each(checkout, ["checkout", "--quiet", old], changed)

    async def _changes(self, checkout: GitCheckout, old: str, new: str) -> list[_Change]:
        output = await checkout.run(["diff-tree", "-r", "-z", "--no-renames", old, new])
        fields = checked(output, f"the changes from {old} to {new}").split("\0")
        return [
            _Change(path, *head.split()[2:4])
            for head, path in zip(fields[0::2], fields[1::2], strict=False)
        ]


def _remove_if_newer(lock: Path, note: Path) -> None:
    """A lock that is newer than the note is from our git: any other git would have failed on it."""
    with contextlib.suppress(OSError):
        if lock.stat().st_mtime_ns >= note.stat().st_mtime_ns:
            lock.unlink()


async def _object_ids(checkout: GitCheckout, paths: Sequence[str]) -> dict[str, str]:
    """The object ids of the files as they are now. Links and names with a line break are left
    out."""
    existing = await asyncio.to_thread(_existing, checkout.folder, paths)
    files = [path for path, is_file in existing.items() if is_file and "\n" not in path]
    names = "".join(f"{path}\n" for path in files).encode(errors="surrogateescape")
    output = await checkout.run(["hash-object", "--stdin-paths"], stdin=names)
    ids = checked(output, f"the files of {checkout.folder}").split() if files else []
    missing = {path: _MISSING for path in paths if path not in existing}
    return missing | dict(zip(files, ids, strict=True))


def _existing(folder: Path, paths: Sequence[str]) -> dict[str, bool]:
    """The paths that exist, and whether each is a regular file."""
    return {
        path: (folder / path).is_file() and not (folder / path).is_symlink()
        for path in paths
        if os.path.lexists(folder / path)
    }


def _unlink(folder: Path, paths: Sequence[str]) -> None:
    for path in paths:
        (folder / path).unlink(missing_ok=True)


async def _for_each(checkout: GitCheckout, arguments: Sequence[str], paths: Sequence[str]) -> None:
    if paths:
        output = await checkout.run(
            [*arguments, "--pathspec-from-file=-", "--pathspec-file-nul"],
            stdin="\0".join(paths).encode(errors="surrogateescape"),
        )
        checked(output, f"restoring the files of {checkout.folder}")
