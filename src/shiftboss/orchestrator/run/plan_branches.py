"""What the branches of a plan's repositories hold."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from shiftboss.errors import UnknownRepo
from shiftboss.orchestrator.attempt.workspace import AgentAssignment
from shiftboss.orchestrator.git.checkouts import UserCheckout
from shiftboss.orchestrator.git.repository import GitRepo
from shiftboss.orchestrator.git.runner import run_git
from shiftboss.protocol.plan import PlanRepo

FILES_MAX: Final = 200
COMMITS_MAX: Final = 50
# In a checkpoint: the ref with the files as they lay there.
UNCOMMITTED: Final = "uncommitted"


class Left(NamedTuple):
    """What an attempt has done so far, committed or not."""

    created: list[str]
    modified: list[str]
    commits: list[str]


def path_of(repo: PlanRepo) -> Path:
    assert repo.path is not None, "a plan that was read has the path of every repo"
    return Path(repo.path)


class PlanBranches:
    async def target_of(self, repo: PlanRepo) -> str:
        """Where work lands: the branch that the plan names, or the one that is checked out."""
        if repo.branch is not None:
            return repo.branch
        said = await run_git(
            ["symbolic-ref", "--quiet", "--short", "HEAD"],
            path_of(repo),
            environment={"GIT_WORK_TREE": str(path_of(repo))},
        )
        if said.code != 0:
            raise UnknownRepo(
                f"{repo.path} has no branch checked out",
                field="repo",
                hint="say in the plan which branch its work goes to: repos.NAME.branch",
            )
        return said.out.decode().strip()

    async def tip(self, assignment: AgentAssignment) -> str:
        repo = await GitRepo.at(assignment.repo)
        return await repo.branch_tip(assignment.branch) or assignment.base

    async def bring_back(self, tree: Path, checkpoint: Mapping[str, Any] | None) -> None:
        """What the attempt before this one had not committed yet lies in the tree again. It is
        there for those who need it, so it is no error when it cannot be had."""
        ref = (checkpoint or {}).get(UNCOMMITTED)
        if isinstance(ref, str) and ref.startswith("refs/shiftboss/salvage/"):
            checkout = await asyncio.to_thread(UserCheckout.at, tree)
            await checkout.run(["restore", f"--source={ref}", "--", "."])

    async def look(self, assignment: AgentAssignment, tree: Path) -> Left:
        """A tree that is gone has left what was committed."""
        repo = await GitRepo.at(assignment.repo)
        tip = await self.tip(assignment)
        listed = await repo.run(["rev-list", f"-{COMMITS_MAX}", f"{assignment.base}..{tip}"])
        changed = _words((await repo.run(_diff(assignment.base, tip))).out)
        if tree.is_dir():  # noqa: ASYNC240 - one look
            checkout = await asyncio.to_thread(UserCheckout.at, tree)
            status = await checkout.run(["status", "--porcelain", "-z", "--no-renames"])
            changed += [field for one in _words(status.out) for field in (_status(one), one[3:])]
        pairs = list(zip(changed[::2], changed[1::2], strict=False))
        created = {path for status, path in pairs if status in ("A", "?")}
        modified = {path for _, path in pairs} - created
        return Left(
            sorted(created)[:FILES_MAX],
            sorted(modified)[:FILES_MAX],
            listed.out.decode().split(),
        )


def _diff(base: str, tip: str) -> list[str]:
    return ["diff", "--name-status", "-z", "--no-renames", base, tip]


def _words(said: bytes) -> list[str]:
    return [one for one in said.decode(errors="replace").split("\0") if one]


def _status(entry: str) -> str:
    return "A" if entry[:2] in ("??", "A ", "AM") else "M"
