"""A repository of the user's: its refs, its history, its merges."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from shiftboss.errors import ShiftbossError, TreeUnavailable, UnknownRepo
from shiftboss.orchestrator.git.checkouts import (
    UserCheckout,
    found_checkouts,
    main_folder,
    named_folder,
)
from shiftboss.orchestrator.git.runner import LOCK_SECONDS, checked, refuse_locked, run_git
from shiftboss.rules.paths.branch_names import ref_part
from shiftboss.system.git import GitOutput

FALLBACK_NAME: Final = "Shiftboss"
FALLBACK_EMAIL: Final = "shiftboss@localhost"
_USAGE_CODE: Final = 129
# For what can be done later as well.
_TIDYING_SECONDS: Final = 1.0
# What a repository with another store of refs has in the file HEAD.
_ELSEWHERE: Final = ".invalid"


class Merged(NamedTuple):
    """`paths` are those in conflict. With any of them, `tree` is of no use."""

    tree: str
    paths: list[str]


@dataclass(frozen=True, slots=True)
class GitRepo:
    """`common` is the git folder that all its work trees share, `main` the folder that its user
    works in, where that is known."""

    common: Path
    main: Path | None = None

    @classmethod
    async def at(cls, folder: Path) -> GitRepo:
        """Raises UnknownRepo."""
        if not await asyncio.to_thread(folder.is_dir):
            raise UnknownRepo(f"There is no folder {folder}", field="repo")
        said = await run_git(
            ["rev-parse", "--path-format=absolute", "--git-common-dir"],
            folder,
            environment={"GIT_WORK_TREE": str(folder)},
        )
        if said.code != 0:
            raise UnknownRepo(
                f"{folder} is not a git repository: {said.first_error}",
                field="repo",
                hint="make one there: git init, and a first commit",
            )
        common = Path(await asyncio.to_thread(os.path.realpath, checked(said, "the folder")))
        inside = Path(await asyncio.to_thread(os.path.realpath, folder))
        return cls(common, await asyncio.to_thread(main_folder, common, inside))

    async def run(
        self,
        arguments: Sequence[str],
        *,
        stdin: bytes = b"",
        environment: Mapping[str, str] | None = None,
        lock_seconds: float = LOCK_SECONDS,
    ) -> GitOutput:
        """Without any work tree: a setting of the repository could name one elsewhere."""
        folder = str(self.common)
        variables = {"GIT_DIR": folder, "GIT_WORK_TREE": folder, **(environment or {})}
        return await run_git(
            arguments, self.common, stdin=stdin, environment=variables, lock_seconds=lock_seconds
        )

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
        """Whether it was at `old` until now; None: it was not there. A user may have made one
        branch another name of a second one; refs of ours are never other names."""
        how = [] if ref.startswith("refs/heads/") else ["--no-deref"]
        said = await self.run(["update-ref", *how, "-m", why, ref, new, old or ""])
        refuse_locked(said, f"moving {ref}")
        return said.code == 0

    async def drop_ref(self, ref: str, old: str) -> bool:
        said = await self.run(
            ["update-ref", "--no-deref", "-d", ref, old], lock_seconds=_TIDYING_SECONDS
        )
        return said.code == 0

    async def other_name_of(self, branch: str) -> str | None:
        """The ref that a branch is only another name of. None: it is a branch of its own."""
        said = await self.run(["symbolic-ref", "--quiet", f"refs/heads/{branch}"])
        return said.out.decode(errors="replace").strip() if said.code == 0 else None

    async def hold(self, ref: str, commit: str) -> None:
        """Keep a commit that is on no branch."""
        await self.text(f"keeping {commit}", "update-ref", "--no-deref", ref, commit)

    async def forget(self, ref: str) -> None:
        said = await self.run(
            ["update-ref", "--no-deref", "-d", ref], lock_seconds=_TIDYING_SECONDS
        )
        checked(said, f"dropping {ref}")

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

    async def is_merge_of(self, commit: str, tree: str, parents: Sequence[str]) -> bool:
        """Has it these files, and these parents alone?"""
        said = await self.text(commit, "rev-parse", f"{commit}^{{tree}}", f"{commit}^@")
        return said.split() == [tree, *parents]

    async def checked_out(self) -> dict[str, UserCheckout]:
        """The branches that are checked out, and where. A bare repository is no checkout."""
        main = self.main or await self._usual_main()
        if main is not None and await self._is_bare(main):
            main = None
        found = await asyncio.to_thread(lambda: list(found_checkouts(self.common, main)))
        return {await self._branch(one, name): one for name, one in found}

    async def _branch(self, checkout: UserCheckout, name: str) -> str:
        if name != _ELSEWHERE:
            return name
        said = await self.run(
            ["symbolic-ref", "--quiet", "HEAD"], environment={"GIT_DIR": str(checkout.admin)}
        )
        return said.out.decode(errors="replace").strip().removeprefix("refs/heads/")

    async def _is_bare(self, main: Path) -> bool:
        """The setting is believed when no file of the repository lies there: agents can write it,
        and a user may have made a bare repository of one that had files."""
        said = await self.run(["config", "--type=bool", "--get", "core.bare"])
        if said.out.strip() != b"true":
            return False
        names = (await self.run(["ls-tree", "-z", "--name-only", "HEAD"])).out.split(b"\0")
        places = [main / os.fsdecode(one) for one in names if one]
        return not await asyncio.to_thread(lambda: any(map(os.path.lexists, places)))

    async def _usual_main(self) -> Path | None:
        if self.common.name == ".git":
            return self.common.parent
        said = await self.run(["config", "--get", "core.worktree"])
        named = said.out.decode(errors="surrogateescape").strip()
        return await asyncio.to_thread(named_folder, self.common, named)

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


# Refs that are ours alone, and the locks that a killed git of ours has left on them.


log = logging.getLogger(__name__)

LANDING_REFS: Final = "refs/shiftboss/landing/"
# Git holds a lock of a ref for some milliseconds.
STALE_SECONDS: Final = 5.0
_OURS: Final = ("refs/shiftboss/", "refs/heads/shiftboss/")


def landing_ref(bead_id: str) -> str:
    """Holds a merge while it is tested."""
    return f"{LANDING_REFS}{ref_part(bead_id)}"


async def break_stale_locks(repo: GitRepo, refs: Sequence[str]) -> None:
    """For whoever has the turn. Locks of other refs are left alone."""
    await asyncio.to_thread(_break, repo, [ref for ref in refs if ref.startswith(_OURS)])


async def forget_landings(repo: GitRepo) -> None:
    """What landings have held, also those that were killed: whoever has the turn of landings is
    alone. What has landed has landed, so nothing is raised; the next landing tries again."""
    try:
        held = await repo.text("landings", "for-each-ref", "--format=%(refname)", LANDING_REFS)
        await break_stale_locks(repo, held.split())
        for ref in held.split():
            await repo.forget(ref)
    except ShiftbossError as error:
        log.warning("refs of landings stay in %s: %s", repo.common, error.detail)


def _break(repo: GitRepo, refs: Sequence[str]) -> None:
    for ref in refs:
        lock = repo.common / f"{ref}.lock"
        with contextlib.suppress(OSError):
            if time.time() - lock.stat().st_mtime > STALE_SECONDS:
                lock.unlink()
