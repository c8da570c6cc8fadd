"""Merging commits that were proven apart, so that new work can start from all of them."""

from __future__ import annotations

from collections.abc import Sequence

from shiftboss.errors import MergeConflict, TreeUnavailable
from shiftboss.orchestrator.repo import GitRepo


async def base_for(repo: GitRepo, target: str, accepted: Sequence[str]) -> str:
    base = await repo.branch_tip(target)
    if base is None:
        raise TreeUnavailable(
            f"there is no branch {target} in {repo.common}",
            field="branch",
            hint="make it, or name another one as the branch of the repo in the plan",
        )
    for name in accepted:
        commit = await repo.commit_of(name)
        if commit is None:
            raise TreeUnavailable(
                f"the accepted commit {name} is not in {repo.common}",
                hint="bring it back: git fetch",
            )
        base = await _with(repo, base, commit)
    return base


async def _with(repo: GitRepo, base: str, commit: str) -> str:
    if await repo.has(commit, base):
        return base
    if await repo.has(base, commit):
        return commit
    merged = await repo.merge(base, commit)
    if merged.paths:
        raise MergeConflict(
            f"{commit[:12]} cannot be merged with {base[:12]}: {', '.join(merged.paths[:10])}",
            hint="land one of them first; the other one's task then merges it",
            facts={"paths": merged.paths, "ours": base, "theirs": commit},
        )
    # The time of the newer one: whoever merges the same commits again gets the same commit.
    dates = await repo.text("the dates", "show", "--no-patch", "--format=%ct", base, commit)
    date = f"{max(int(one) for one in dates.split())} +0000"
    message = f"Base with {commit[:12]}\n\nMade by Shiftboss for a task that depends on both.\n"
    return await repo.commit_tree(merged.tree, [base, commit], message, date=date)
