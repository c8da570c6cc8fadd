"""Files that are laid over those of a commit, in a checkout of it."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import stat
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from shiftboss.errors import EvidenceUnavailable
from shiftboss.system.git import checked, git

# What a machine lacks. Anything else is in the way, and code of the worker may have put it there.
_SHORTAGES: Final = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.EIO}
)


class UnwritableCheckout(EvidenceUnavailable):
    """Something stands where a file has to be, such as a folder that cannot be changed."""


class Overlay(NamedTuple):
    """By default, the files are committed before the setup, which may copy or compile them. Nothing
    shows the difference to another commit.

    `after_setup`: the setup does not see the files. `is_secret`: the setup sees them, and gets no
    more network than the criteria, because it runs code that could send them away.
    """

    files: Mapping[str, bytes] = MappingProxyType({})
    after_setup: bool = False
    is_secret: bool = False


NO_OVERLAY: Final = Overlay()


async def lay_over(folder: Path, files: Mapping[str, bytes]) -> None:
    """Raises UnwritableCheckout if something is in the way."""
    await asyncio.to_thread(_write_all, folder, files)


async def commit_files(folder: Path, commit: str, files: Mapping[str, bytes]) -> None:
    """Amend the commit of a fresh checkout, in which no command has run yet.

    The new objects are in the repository of the checkout, so that they are deleted with it: those
    of the mirror can be read by the commands of later claims.
    """
    await lay_over(folder, files)
    paths = "".join(f"{path}\0" for path in files).encode(errors="surrogateescape")
    await _git(folder, "update-index", "--add", "--replace", "-z", "--stdin", stdin=paths)
    tree = await _git(folder, "write-tree")
    original = await _git(folder, "cat-file", "commit", commit)
    _, _, rest = original.partition(b"\n")  # the first line names the tree
    amended = b"tree %s\n%s" % (tree.strip(), rest)
    made = await _git(folder, "hash-object", "-t", "commit", "-w", "--stdin", stdin=amended)
    await asyncio.to_thread((folder / ".git" / "HEAD").write_bytes, made)


async def _git(folder: Path, *arguments: str, stdin: bytes = b"") -> bytes:
    repository = {"GIT_DIR": str(folder / ".git"), "GIT_WORK_TREE": str(folder)}
    output = await git(arguments, folder, stdin=stdin, environment=repository)
    return checked(output, "changing a checkout")


def _write_all(folder: Path, files: Mapping[str, bytes]) -> None:
    for name, content in files.items():
        try:
            _write(folder, name, content)
        except OSError as error:
            if error.errno in _SHORTAGES:
                reason = os.strerror(error.errno or 0)
                raise EvidenceUnavailable(f"a checkout cannot be written: {reason}") from error
            raise UnwritableCheckout("a file cannot be written over the checkout") from error


def _write(folder: Path, name: str, content: bytes) -> None:
    """Links in the place of folders are replaced, so that nothing outside is written."""
    *parents, last = name.split("/")
    file = folder
    for part in parents:
        file /= part
        if file.is_symlink() or not file.is_dir():
            file.unlink(missing_ok=True)
            file.mkdir()
    file /= last
    mode = file.stat(follow_symlinks=False).st_mode if os.path.lexists(file) else None
    if mode is not None and stat.S_ISDIR(mode):
        shutil.rmtree(file)
    elif mode is not None and not stat.S_ISREG(mode):
        file.unlink()
    file.write_bytes(content)
