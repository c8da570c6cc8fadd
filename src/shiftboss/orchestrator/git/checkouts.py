"""The checkouts of a repository: its user's own, and the work trees that git keeps beside it.

They are read from git's own files. `git worktree list` ends with an error when a tree is removed
meanwhile, and believes settings that every agent of the repository can write.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from shiftboss.orchestrator.git.runner import GIT_SECONDS, checked, run_git
from shiftboss.system.git import GitOutput

_REF: Final = "ref: "
_BRANCH: Final = "refs/heads/"
_POINTER: Final = "gitdir: "


@dataclass(frozen=True, slots=True)
class UserCheckout:
    """`admin` is what git keeps of it. Git is told both folders at every call: `core.worktree` and
    `core.bare` of the repository would lead it elsewhere."""

    folder: Path
    admin: Path

    @classmethod
    def at(cls, folder: Path) -> UserCheckout:
        return cls(folder, pointed_to(folder) or folder / ".git")

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
        """What its user has changed since the last commit, a line for each file."""
        said = await self.run(["status", "--porcelain", "-z", "--no-renames", "-uno"])
        words = checked(said, f"the state of {self.folder}").split("\0")
        return {one for one in words if one}


def pointed_to(folder: Path) -> Path | None:
    """The git folder of a checkout, which may lie elsewhere. None: it is no checkout."""
    entry = folder / ".git"
    if entry.is_dir():
        return Path(os.path.realpath(entry))
    text = _read(entry)
    if not text.startswith(_POINTER):
        return None
    return Path(os.path.realpath(folder / text.removeprefix(_POINTER)))


def main_folder(common: Path, inside: Path) -> Path | None:
    """Where the user works with the repository, seen from a folder of it. None: nothing tells."""
    for folder in (inside, *inside.parents):
        if os.path.lexists(folder / ".git"):
            return folder if pointed_to(folder) == common else None
    return None


def named_folder(common: Path, name: str) -> Path | None:
    """Of a submodule: where its settings say that it is, when it says the same itself."""
    folder = Path(os.path.normpath(common / name))
    return folder if name and pointed_to(folder) == common else None


def found_checkouts(common: Path, main: Path | None) -> Iterator[tuple[str, UserCheckout]]:
    """Those that have a branch, and its name. A repository without an index of its own is bare,
    or nothing was ever written out of it."""
    if main is not None and (common / "index").is_file() and (branch := _branch_of(common)):
        yield branch, UserCheckout(main, common)
    try:
        admins = sorted((common / "worktrees").iterdir())
    except OSError:
        return
    for admin in admins:
        file, branch = _read(admin / "gitdir"), _branch_of(admin)
        if file and branch:
            yield branch, UserCheckout(Path(os.path.normpath(admin / file)).parent, admin)


def _branch_of(admin: Path) -> str:
    """Empty where no branch is checked out, or where it is gone."""
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
