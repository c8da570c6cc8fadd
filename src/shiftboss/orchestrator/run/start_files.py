"""The files of a plan's repository where the work of its tasks starts."""

from __future__ import annotations

from collections.abc import Sequence

from shiftboss.errors import ShiftbossError
from shiftboss.orchestrator.git.repository import GitRepo
from shiftboss.orchestrator.run.plan_branches import repo_path
from shiftboss.protocol.plan import Plan, PlanRepo
from shiftboss.rules.plans.expectations import changes_expectations


def start_of(repo: PlanRepo) -> str:
    return "HEAD" if repo.branch is None else f"refs/heads/{repo.branch}"


async def list_files(git_repo: GitRepo, repo: PlanRepo, paths: Sequence[str] = ()) -> list[str]:
    """Those that have one of these paths, or are below one; without paths, all of them."""
    output = await git_repo.run(
        ["ls-tree", "-r", "-z", "--full-tree", "--name-only", start_of(repo), "--", *paths]
    )
    return [name for name in output.out.decode(errors="surrogateescape").split("\0") if name]


async def read_files(plan: Plan) -> dict[str, list[str]]:
    """The files of each repo whose tests the plan lets change what they expect."""
    files: dict[str, list[str]] = {}
    for name, repo in plan.repos.items():
        if changes_expectations(plan, name):
            try:
                there = await list_files(await GitRepo.at(repo_path(repo)), repo)
            except ShiftbossError:
                continue
            if there:  # the preflight reports a repository without commits or without the branch
                files[name] = there
    return files
