"""The checkouts of a repository: its main one, and its work trees.

They are read from git's own files. `git worktree list` fails if a work tree is removed in the
meantime, and trusts settings that every agent in the repository can write.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from shiftboss.orchestrator.git.runner import GIT_SECONDS, checked, run_git
from shiftboss.system.git import GitOutput

_REF: Final = "ref: "
_BRANCH: Final = "refs/heads/"
_POINTER: Final = "gitdir: "


@dataclass(frozen=True, slots=True)
class GitCheckout:
    """`admin` is the git folder of the checkout. Both folders are passed to every git command:
    `core.worktree` and `core.bare` of the repository could point elsewhere."""

    folder: Path
    admin: Path

    @classmethod
    def at(cls, folder: Path) -> GitCheckout:
        return cls(folder, git_folder_of(folder) or folder / ".git")

    async def run(
        self,
        arguments: Sequence[str],
        *,
        stdin: bytes = b"",
        seconds: float = GIT_SECONDS,
        keeps_open: Sequence[int] = (),
    ) -> GitOutput:
        return await run_git(
            arguments,
            self.folder,
            stdin=stdin,
            seconds=seconds,
            environment={"GIT_DIR": str(self.admin), "GIT_WORK_TREE": str(self.folder)},
            keeps_open=keeps_open,
        )

    async def changes(self) -> set[str]:
        """The uncommitted changes, one status line per file. Untracked files do not count."""
        output = await self.run(["status", "--porcelain", "-z", "--no-renames", "-uno"])
        lines = checked(output, f"the status of {self.folder}").split("\0")
        return {line for line in lines if line}


def git_folder_of(folder: Path) -> Path | None:
    """The git folder of a checkout, which may be elsewhere. None if it is not a checkout."""
    entry = folder / ".git"
    if entry.is_dir():
        return Path(os.path.realpath(entry))
    text = _read(entry)
    if not text.startswith(_POINTER):
        return None
    return Path(os.path.realpath(folder / text.removeprefix(_POINTER)))


class GitFolderState(NamedTuple):
    """What tells whether the `.git` of a folder is still the same, with the same settings."""

    owners: tuple[int, int]
    folder: tuple[int, int]
    settings: tuple[int, int, int]


def git_folder_state(folder: Path) -> GitFolderState | None:
    """None unless the folder has a `.git` of its own that is a complete git folder."""
    own = folder / ".git"
    try:
        top, git, config = folder.stat(), own.lstat(), (own / "config").stat()
    except OSError:
        return None
    if not stat.S_ISDIR(git.st_mode) or not (own / "HEAD").exists() or (own / "commondir").exists():
        return None
    return GitFolderState(
        (top.st_uid, git.st_uid),
        (git.st_dev, git.st_ino),
        (config.st_ino, config.st_size, config.st_mtime_ns),
    )


def main_folder(common: Path, inside: Path) -> Path | None:
    """The folder of the main checkout, found from a folder `inside` it. None if that is not in
    the main checkout."""
    for folder in (inside, *inside.parents):
        if os.path.lexists(folder / ".git"):
            return folder if git_folder_of(folder) == common else None
    return None


def submodule_folder(common: Path, setting: str) -> Path | None:
    """The folder of a submodule from its `core.worktree`, if that folder points back to it."""
    folder = Path(os.path.normpath(common / setting))
    return folder if setting and git_folder_of(folder) == common else None


def list_checkouts(common: Path, main: Path | None) -> Iterator[tuple[str, GitCheckout]]:
    """Every checkout that is on a branch, with the name of the branch. A repository without an
    index is bare, or its files were never checked out."""
    if main is not None and (common / "index").is_file() and (branch := _branch_of(common)):
        yield branch, GitCheckout(main, common)
    try:
        admins = sorted((common / "worktrees").iterdir())
    except OSError:
        return
    for admin in admins:
        file, branch = _read(admin / "gitdir"), _branch_of(admin)
        if file and branch:
            yield branch, GitCheckout(Path(os.path.normpath(admin / file)).parent, admin)


def _branch_of(admin: Path) -> str:
    """Empty if no branch is checked out, or if the folder is gone."""
    head = admin / "HEAD"
    try:
        name = str(head.readlink()) if head.is_symlink() else _read(head).removeprefix(_REF)
    except OSError:
        return ""
    return name.removeprefix(_BRANCH) if name.startswith(_BRANCH) else ""


def _read(file: Path) -> str:
    try:
        return file.read_text(errors="surrogateescape").strip()
    except OSError:
        return ""
