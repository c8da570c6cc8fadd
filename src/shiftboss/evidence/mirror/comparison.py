"""Comparing a checkout with its commit, after code of the worker has run in it.

Git reads the files with an index that was kept outside of the reach of that code, and with a
repository of its own: the one in the checkout may have been given a configuration that runs
programs. Only files whose status has changed since the checkout are read.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from shiftboss.rules.paths.setup_changes import SetupChanges, is_bytecode, must_be_expanded
from shiftboss.system.git import checked, git

COMPARISON_SECONDS: Final = 300.0
_FOLDER: Final = "comparison"


class KeptIndex(NamedTuple):
    """The index of a fresh checkout. Git trusts the status of a file only if it is older than the
    index, so the time of the index is kept too."""

    content: bytes
    written_ns: int


async def keep_index(files: Path) -> KeptIndex:
    return await asyncio.to_thread(_read_index, files / ".git" / "index")


def _read_index(path: Path) -> KeptIndex:
    try:
        return KeptIndex(path.read_bytes(), path.stat().st_mtime_ns)
    except FileNotFoundError:  # the commit has no files
        return KeptIndex(b"", 0)


async def compare(files: Path, index: KeptIndex, config: str, mirror: Path) -> SetupChanges:
    """What differs from the commit. Bytecode beside the sources is removed."""
    comparison = _Comparison(files)
    await asyncio.to_thread(comparison.prepare, index, config, mirror)
    changed = await comparison.list(
        *("diff", "--name-only", "--no-renames", "--no-ext-diff", "--no-textconv"),
        *("--ignore-submodules=dirty", "-z"),
    )
    others = await comparison.list("ls-files", "--others", "--directory", "-z")
    bytecode = [path for path in others if is_bytecode(path)]
    await asyncio.to_thread(_remove, files, bytecode)
    remaining = [path for path in others if path not in bytecode]
    added = await asyncio.to_thread(_expanded, files, remaining)
    if not changed and not added:
        return SetupChanges([], [], [], [])
    tracked = frozenset(await comparison.list("ls-files", "-z"))
    ignored = await comparison.list(
        *("ls-files", "--others", "--ignored", "--exclude-per-directory=.gitignore"),
        *("--directory", "-z"),
    )
    return SetupChanges(changed, added, frozenset(ignored), tracked)


class _Comparison:
    """A repository beside the checkout that borrows its objects from the mirror."""

    def __init__(self, files: Path) -> None:
        self._files = files
        self._repository = files.parent / _FOLDER

    def prepare(self, index: KeptIndex, config: str, mirror: Path) -> None:
        (self._repository / "objects" / "info").mkdir(parents=True)
        (self._repository / "refs").mkdir()
        alternates = self._repository / "objects" / "info" / "alternates"
        alternates.write_text(f"{mirror.resolve() / 'objects'}\n")
        (self._repository / "config").write_text(config)
        (self._repository / "HEAD").write_text("ref: refs/heads/none\n")
        if index.content:
            kept = self._repository / "index"
            kept.write_bytes(index.content)
            os.utime(kept, ns=(index.written_ns, index.written_ns))

    async def list(self, *arguments: str) -> list[str]:
        output = await git(
            arguments,
            self._files,
            seconds=COMPARISON_SECONDS,
            environment={"GIT_DIR": str(self._repository), "GIT_WORK_TREE": str(self._files)},
        )
        names = checked(output, "comparing the checkout")
        return names.decode(errors="surrogateescape").split("\0")[:-1]


def _remove(files: Path, folders: Sequence[str]) -> None:
    for folder in folders:
        shutil.rmtree(files / folder, ignore_errors=True)


def _expanded(files: Path, paths: Sequence[str]) -> list[str]:
    """With the entries of new folders that Python may import modules from."""
    found = list(paths)
    for path in found:  # it grows
        if path.endswith("/") and must_be_expanded(path):
            with os.scandir(files / path) as entries:
                found += [
                    f"{path}{entry.name}{'/' if entry.is_dir(follow_symlinks=False) else ''}"
                    for entry in entries
                ]
    return found
