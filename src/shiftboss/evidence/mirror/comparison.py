"""Comparing a checkout with its commit, after code of the worker has run in it.

Git reads the files with an index that was kept outside of the reach of that code, and with a
repository of its own: the one in the checkout may have been given a configuration that runs
programs. Only files whose status has changed since the checkout are read.
"""

from __future__ import annotations

import asyncio
import hashlib
import mmap
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from shiftboss.evidence.mirror.mirror import Mirror
from shiftboss.rules.paths.setup_changes import SetupChanges, is_bytecode, must_be_expanded
from shiftboss.system.git import checked, git

COMPARISON_SECONDS: Final = 300.0
_FOLDER: Final = "comparison"
_DECLARATIONS: Final = ("pyproject.toml", "setup.cfg", "setup.py")
_POINTER: Final = re.compile(
    rb"version https://git-lfs[^\n]*\n(?:ext-[^\n]*\n)*oid sha256:([0-9a-f]{64})\nsize \d+\n"
)
_POINTER_BYTES_MAX: Final = 1024


class KeptIndex(NamedTuple):
    """The index of a fresh checkout. Git trusts the status of a file only if it is older than the
    index, so the time of the index is kept too. `objects` are those that the mirror does not have:
    files that were laid over the commit."""

    content: bytes
    written_ns: int
    objects: Mapping[Path, bytes]


async def keep_index(files: Path) -> KeptIndex:
    return await asyncio.to_thread(_read_index, files / ".git")


def _read_index(repository: Path) -> KeptIndex:
    index, objects = repository / "index", repository / "objects"
    own = {path.relative_to(objects): path.read_bytes() for path in objects.glob("??/*")}
    try:
        return KeptIndex(index.read_bytes(), index.stat().st_mtime_ns, own)
    except FileNotFoundError:  # the commit has no files
        return KeptIndex(b"", 0, own)


async def compare(files: Path, index: KeptIndex, config: str, mirror: Mirror) -> SetupChanges:
    """The differences from the commit. Bytecode beside the sources is removed."""
    comparison = _Comparison(files)
    await asyncio.to_thread(comparison.prepare, index, config, mirror.path)
    entries = await comparison.list(
        *("diff", "--raw", "--no-abbrev", "--no-renames", "--no-ext-diff", "--no-textconv"),
        *("--ignore-submodules=dirty", "-z"),
    )
    changed = await _without_large_files(files, mirror, entries)
    others = await comparison.list("ls-files", "--others", "--directory", "-z")
    bytecode = [path for path in others if is_bytecode(path)]
    await asyncio.to_thread(_remove, files, bytecode)
    remaining = [path for path in others if path not in bytecode]
    added = await asyncio.to_thread(_expanded, files, remaining)
    if not changed and not added:
        return SetupChanges([], [], (), ())
    tracked = frozenset(await comparison.list("ls-files", "-z"))
    ignored = await comparison.list(
        *("ls-files", "--others", "--ignored", "--exclude-per-directory=.gitignore"),
        *("--directory", "-z"),
    )
    plugins = await asyncio.to_thread(_undeclared_plugins, files, added)
    return SetupChanges(changed, added, frozenset(ignored), tracked, plugins)


async def _without_large_files(files: Path, mirror: Mirror, entries: Sequence[str]) -> list[str]:
    """The changed paths. In the place of a large file, git may have a pointer with its hash (Git
    LFS), and the setup fetches the file."""
    # Each entry is followed by its path: old mode, new mode, old blob, new blob, status.
    changed = {path: entry.split() for entry, path in zip(*[iter(entries)] * 2, strict=True)}
    candidates = {
        path: blob
        for path, (old_mode, new_mode, blob, *_) in changed.items()
        if old_mode.lstrip(":") == new_mode
    }
    if not candidates:
        return list(changed)
    pointers = await mirror.read(list(candidates.values()), _POINTER_BYTES_MAX)
    fetched = set()
    for path, blob in candidates.items():
        pointer = _POINTER.fullmatch(pointers.get(blob, b""))
        if pointer and await asyncio.to_thread(_sha256, files / path) == pointer[1].decode():
            fetched.add(path)
    return [path for path in changed if path not in fetched]


def _sha256(path: Path) -> str:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _undeclared_plugins(files: Path, added: Sequence[str]) -> list[str]:
    """Metadata of an editable installation repeats what the project declares, in a file that
    cannot have changed."""
    found = []
    for path in added:
        if path.endswith(".egg-info/") and _mentions_plugin(files / path / "entry_points.txt"):
            folders = [files, *(files / folder for folder in Path(path).parents)]
            declarations = [folder / name for folder in folders for name in _DECLARATIONS]
            if not any(map(_mentions_plugin, declarations)):
                found.append(path)
    return found


def _mentions_plugin(path: Path) -> bool:
    """Without reading all of it into memory: the setup may have made it of any size."""
    if not path.is_file() or path.stat().st_size == 0:
        return False
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return content.find(b"pytest11") >= 0


class _Comparison:
    """A repository beside the checkout that borrows the objects of the commit from the mirror."""

    def __init__(self, files: Path) -> None:
        self._files = files
        self._repository = files.parent / _FOLDER

    def prepare(self, index: KeptIndex, config: str, mirror: Path) -> None:
        (self._repository / "objects" / "info").mkdir(parents=True)
        (self._repository / "refs").mkdir()
        alternates = self._repository / "objects" / "info" / "alternates"
        alternates.write_text(f"{mirror.resolve() / 'objects'}\n")
        for name, content in index.objects.items():
            loose = self._repository / "objects" / name
            loose.parent.mkdir(exist_ok=True)
            loose.write_bytes(content)
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
