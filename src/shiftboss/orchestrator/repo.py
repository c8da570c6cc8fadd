"""A repository of the user's: its refs, its history, its merges."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from shiftboss.errors import TreeUnavailable, UnknownRepo
from shiftboss.evidence.git import Said
from shiftboss.orchestrator.git import checked, run_git

FALLBACK_NAME: Final = "Shiftboss"
FALLBACK_EMAIL: Final = "shiftboss@localhost"
_USAGE_CODE: Final = 129


class Merged(NamedTuple):
    """`paths` are those in conflict. With any of them, `tree` is of no use."""

    tree: str
    paths: list[str]


@dataclass(frozen=True, slots=True)
class GitRepo:
    """`common` is the git folder that all its work trees share."""

    common: Path

    @classmethod
    async def at(cls, folder: Path) -> GitRepo:
        """Raises UnknownRepo."""
        if not await asyncio.to_thread(folder.is_dir):
            raise UnknownRepo(f"There is no folder {folder}", field="repo")
        said = await run_git(["rev-parse", "--path-format=absolute", "--git-common-dir"], folder)
        if said.code != 0:
            raise UnknownRepo(
                f"{folder} is not a git repository: {said.first_error}",
                field="repo",
                hint="make one there: git init, and a first commit",
            )
        return cls(Path(await asyncio.to_thread(os.path.realpath, checked(said, "the folder"))))

    async def run(
        self,
        arguments: Sequence[str],
        *,
        stdin: bytes = b"",
        environment: Mapping[str, str] | None = None,
    ) -> Said:
        variables = {"GIT_DIR": str(self.common), **(environment or {})}
        return await run_git(arguments, self.common, stdin=stdin, environment=variables)

    async def text(self, what: str, *arguments: str) -> str:
        return checked(await self.run(arguments), what)

    async def commit_of(self, name: str) -> str | None:
        """The commit that a revision stands for. None: there is none."""
        said = await self.run(
            ["rev-parse", "--quiet", "--verify", "--end-of-options", f"{name}^{{commit}}"]
        )
        return said.out.decode().strip() if said.code == 0 else None

    async def branch_tip(self, branch: str) -> str | None:
        return await self.commit_of(f"refs/heads/{branch}")

    async def has(self, older: str, newer: str) -> bool:
        """Is `older` in the history of `newer`?"""
        said = await self.run(["merge-base", "--is-ancestor", older, newer])
        if said.code not in (0, 1):
            raise TreeUnavailable(f"the history of {newer} in {self.common}: {said.first_error}")
        return said.code == 0

    async def tree_of(self, commit: str) -> str:
        return await self.text(f"the files of {commit}", "rev-parse", f"{commit}^{{tree}}")

    async def move_ref(self, ref: str, new: str, old: str | None, why: str) -> bool:
        """Whether it was at `old` until now; None: it was not there."""
        said = await self.run(["update-ref", "-m", why, ref, new, old or ""])
        return said.code == 0

    async def drop_ref(self, ref: str, old: str) -> bool:
        said = await self.run(["update-ref", "--no-deref", "-d", ref, old])
        return said.code == 0

    async def hold(self, ref: str, commit: str) -> None:
        """Keep a commit that is on no branch."""
        await self.text(f"keeping {commit}", "update-ref", ref, commit)

    async def forget(self, ref: str) -> None:
        await self.text(f"dropping {ref}", "update-ref", "-d", ref)

    async def merge(self, ours: str, theirs: str) -> Merged:
        """Of two commits, without any work tree."""
        said = await self.run(
            ["merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", ours, theirs]
        )
        if said.code == _USAGE_CODE:
            raise TreeUnavailable(
                "this git cannot merge without a work tree", hint="install git 2.38 or newer"
            )
        if said.code not in (0, 1):
            raise TreeUnavailable(f"merging {theirs} into {ours}: {said.first_error}")
        tree, *paths = said.out.decode(errors="surrogateescape").split("\0")
        return Merged(tree, list(dict.fromkeys(one for one in paths if one)))

    async def checked_out(self) -> dict[str, Path]:
        """The branches that work trees have, and their folders. A bare repository is none."""
        text = await self.text("the work trees", "worktree", "list", "--porcelain", "-z")
        found = {}
        for block in text.split("\0\0"):
            words = dict(line.partition(" ")[::2] for line in block.split("\0"))
            if "branch" in words and "bare" not in words:
                found[words["branch"].removeprefix("refs/heads/")] = Path(words["worktree"])
        return found

    async def commit_tree(
        self, tree: str, parents: Sequence[str], message: str, *, date: str | None = None
    ) -> str:
        """With a date, the same words make the same commit."""
        arguments = ["commit-tree", tree]
        for parent in parents:
            arguments += ["-p", parent]
        variables = await self._identity()
        if date is not None:
            variables |= {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}
        said = await self.run(
            arguments, stdin=message.encode(errors="replace"), environment=variables
        )
        return checked(said, "making a commit")

    async def _identity(self) -> dict[str, str]:
        """Nothing where the user has one; git would make one up from the name of the machine."""
        said = await self.run(["config", "--get", "user.email"])
        if said.code == 0 and said.out.strip() and await self._has_name():
            return {}
        return {
            name: os.environ.get(name) or fallback
            for name, fallback in (
                ("GIT_AUTHOR_NAME", FALLBACK_NAME),
                ("GIT_AUTHOR_EMAIL", FALLBACK_EMAIL),
                ("GIT_COMMITTER_NAME", FALLBACK_NAME),
                ("GIT_COMMITTER_EMAIL", FALLBACK_EMAIL),
            )
        }

    async def _has_name(self) -> bool:
        said = await self.run(["config", "--get", "user.name"])
        return said.code == 0 and bool(said.out.strip())
