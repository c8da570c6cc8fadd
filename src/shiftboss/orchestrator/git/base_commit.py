"""The commit that new work starts from: the target, merged with accepted but unlanded work."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from shiftboss.errors import MergeConflict, TreeUnavailable
from shiftboss.orchestrator.git.repository import GitRepo


async def base_commit(folder: Path, target: str, accepted: Sequence[str]) -> str:
    """The tip of the target, merged with the accepted commits. The same commits always give the
    same result.

    Raises MergeConflict, with the facts `paths`, `ours` and `theirs`.
    """
    repo = await GitRepo.at(folder)
    base = await repo.branch_tip(target)
    if base is None:
        raise TreeUnavailable(
            f"there is no branch {target} in {repo.common}",
            field="branch",
            hint="create it, or set another branch for the repo in the plan",
        )
    for name in accepted:
        commit = await repo.commit_of(name)
        if commit is None:
            raise TreeUnavailable(
                f"the accepted commit {name} is not in {repo.common}",
                hint="restore it: git fetch",
            )
        base = await _merge(repo, base, commit)
    return base


async def _merge(repo: GitRepo, base: str, commit: str) -> str:
    if await repo.is_ancestor(commit, base):
        return base
    if await repo.is_ancestor(base, commit):
        return commit
    merged = await repo.merge(base, commit)
    if merged.paths:
        raise MergeConflict(
            f"{commit[:12]} cannot be merged with {base[:12]}: {', '.join(merged.paths[:10])}",
            hint="land one of them first; a merge task then merges the other",
            facts={"paths": merged.paths, "ours": base, "theirs": commit},
        )
    # With a fixed date, merging the same commits again gives the same commit.
    dates = await repo.text("the dates", "show", "--no-patch", "--format=%ct", base, commit)
    date = f"{max(int(seconds) for seconds in dates.split())} +0000"
    message = f"Base with {commit[:12]}\n\nMade by Shiftboss for a task that depends on both.\n"
    return await repo.commit_tree(merged.tree, [base, commit], message, date=date)
