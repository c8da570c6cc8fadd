"""Scratch repositories: hacks are committed there, and nothing is written to the user's own.

A scratch repository borrows the objects of the repository and has its own branches. It lies in a
temporary folder, which is removed at the end, however the replay ends.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from shiftboss.errors import EvidenceUnavailable
from shiftboss.redteam.hacks import Edit, Link
from shiftboss.system.fast_import import (
    FILE,
    SYMLINK,
    commit_start,
    deleted_file,
    written_file,
)
from shiftboss.system.git import checked, git
from shiftboss.system.processes.cancellation import run_to_completion

_AUTHOR: Final = "Shiftboss <redteam@shiftboss.invalid> 1700000000 +0000"


@asynccontextmanager
async def scratch_folder() -> AsyncIterator[Path]:
    """A temporary folder outside of every repository of the plan."""
    folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="shiftboss-redteam-"))
    try:
        yield folder
    finally:
        await run_to_completion(asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True))


class ScratchRepository:
    """A bare repository with the history of another one, and one branch per hack."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    async def create(cls, path: Path, source: Path, branches: dict[str, str]) -> ScratchRepository:
        """`source` is the folder of git in the user's repository, `branches` are commits by the
        name of a branch that the scratch repository gets."""
        if await asyncio.to_thread((source / "shallow").exists):
            raise EvidenceUnavailable(f"{source} is a shallow clone", hint="git fetch --unshallow")
        await asyncio.to_thread(path.mkdir, parents=True)
        made = await git(["init", "--quiet", "--bare", "--template=", str(path)], path)
        checked(made, "creating a scratch repository")
        await asyncio.to_thread(_borrow_objects, path, source)
        repository = cls(path)
        for name, commit in branches.items():
            await repository._git("update-ref", f"refs/heads/{name}", commit)
        return repository

    async def commit(self, branch: str, base: str, message: str, edit: Edit) -> str:
        """Set the branch to a new commit on the base. Returns the id of the commit."""
        modes = await self._modes(base, edit)
        stream = _fast_import_stream(branch, base, message, edit, modes)
        await self._git("fast-import", "--quiet", "--force", stdin=stream)
        return (await self._git("rev-parse", f"refs/heads/{branch}")).decode().strip()

    async def _modes(self, base: str, edit: Edit) -> dict[str, str]:
        """The modes of the files that exist at the base: a program stays one."""
        listed = await self._git("ls-tree", "-z", "--full-tree", base, "--", *edit)
        modes: dict[str, str] = {}
        for entry in filter(None, listed.decode(errors="surrogateescape").split("\0")):
            details, _, path = entry.partition("\t")
            mode, kind, _ = details.split(" ", 2)
            if kind == "blob" and mode != SYMLINK:
                modes[path] = mode
        return modes

    async def _git(self, *arguments: str, stdin: bytes = b"") -> bytes:
        output = await git(
            arguments, self.path, stdin=stdin, environment={"GIT_DIR": str(self.path)}
        )
        return checked(output, f"git {arguments[0]} in a scratch repository")


def _borrow_objects(path: Path, source: Path) -> None:
    objects = source.resolve() / "objects"
    (path / "objects" / "info").mkdir(parents=True, exist_ok=True)
    (path / "objects" / "info" / "alternates").write_text(f"{objects}\n")


def _fast_import_stream(
    branch: str, base: str, message: str, edit: Edit, modes: dict[str, str]
) -> bytes:
    people = [f"committer {_AUTHOR}".encode()]
    start = commit_start(f"refs/heads/{branch}", people, message.encode(), [base.encode()])
    return start + b"".join(_changed(path, content, modes) for path, content in edit.items())


def _changed(path: str, content: str | Link | None, modes: dict[str, str]) -> bytes:
    if content is None:
        return deleted_file(path)
    if isinstance(content, Link):
        return written_file(path, content.target.encode(), SYMLINK)
    return written_file(path, content.encode(), modes.get(path, FILE))
