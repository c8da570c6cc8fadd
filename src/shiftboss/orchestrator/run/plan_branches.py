"""Reads the branches of a plan's repositories: targets, tips, and what an attempt has changed."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from shiftboss.errors import UnknownRepo
from shiftboss.orchestrator.attempt.workspace import AgentAssignment
from shiftboss.orchestrator.git.checkouts import GitCheckout
from shiftboss.orchestrator.git.repository import GitRepo
from shiftboss.orchestrator.git.runner import run_git
from shiftboss.protocol.plan import PlanRepo

FILES_MAX: Final = 200
COMMITS_MAX: Final = 50
# The key in a checkpoint for the ref that holds uncommitted files.
UNCOMMITTED: Final = "uncommitted"


class AttemptChanges(NamedTuple):
    """What an attempt has changed so far. Uncommitted files count; `commits` are newest first."""

    created: list[str]
    modified: list[str]
    commits: list[str]


def repo_path(repo: PlanRepo) -> Path:
    assert repo.path is not None, "load_plan sets the path of every repo"
    return Path(repo.path)


class PlanBranches:
    async def target_of(self, repo: PlanRepo) -> str:
        """The branch that work lands on: the one that the plan names, or else the one that is
        checked out. Raises UnknownRepo if there is neither."""
        if repo.branch is not None:
            return repo.branch
        output = await run_git(
            ["symbolic-ref", "--quiet", "--short", "HEAD"],
            repo_path(repo),
            environment={"GIT_WORK_TREE": str(repo_path(repo))},
        )
        if output.code != 0:
            raise UnknownRepo(
                f"{repo.path} has no branch checked out",
                field="repo",
                hint="set the branch that its work lands on in the plan: repos.NAME.branch",
            )
        return output.out.decode().strip()

    async def tip(self, assignment: AgentAssignment) -> str:
        repo = await GitRepo.at(assignment.repo)
        return await repo.branch_tip(assignment.branch) or assignment.base

    async def restore_uncommitted(self, tree: Path, checkpoint: Mapping[str, Any] | None) -> None:
        """Write the files that the previous attempt had not committed into the work tree. A failure
        is ignored: the agent can still read them from the ref."""
        ref = (checkpoint or {}).get(UNCOMMITTED)
        if isinstance(ref, str) and ref.startswith("refs/shiftboss/salvage/"):
            checkout = await asyncio.to_thread(GitCheckout.at, tree)
            await checkout.run(["restore", f"--source={ref}", "--", "."])

    async def changes(self, assignment: AgentAssignment, tree: Path) -> AttemptChanges:
        """Only commits count if the work tree is gone."""
        repo = await GitRepo.at(assignment.repo)
        tip = await repo.branch_tip(assignment.branch) or assignment.base
        commits = await repo.run(["rev-list", f"-{COMMITS_MAX}", f"{assignment.base}..{tip}"])
        diff = ["diff", "--name-status", "-z", "--no-renames", assignment.base, tip]
        fields = _split((await repo.run(diff)).out)
        entries = list(zip(fields[::2], fields[1::2], strict=False))
        if tree.is_dir():  # noqa: ASYNC240 - a single stat
            checkout = await asyncio.to_thread(GitCheckout.at, tree)
            status = await checkout.run(["status", "--porcelain", "-z", "--no-renames"])
            entries += [(_status(entry), entry[3:]) for entry in _split(status.out)]
        created = {path for status, path in entries if status in ("A", "?")}
        modified = {path for _, path in entries} - created
        return AttemptChanges(
            sorted(created)[:FILES_MAX],
            sorted(modified)[:FILES_MAX],
            commits.out.decode().split(),
        )


def _split(output: bytes) -> list[str]:
    return [field for field in output.decode(errors="replace").split("\0") if field]


def _status(entry: str) -> str:
    return "A" if entry[:2] in ("??", "A ", "AM") else "M"
