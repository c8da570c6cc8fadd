"""Squashed work on a branch: finding it, and merging work that was built on top of it."""

from __future__ import annotations

from typing import Final, NamedTuple

from shiftboss.orchestrator.git.repository import GitRepo, Merged
from shiftboss.rules.runs.squash import COMMIT_TRAILER

_FORMAT: Final = f"%H %(trailers:key={COMMIT_TRAILER},valueonly,separator=%x20)"


class Squash(NamedTuple):
    """`commit` is on the branch and has the content of `verified`, which is not."""

    commit: str
    verified: str


async def find_squash(repo: GitRepo, tip: str, work: str) -> str | None:
    """The squash commit on the branch that contains the work: of the work itself, or of a merge
    task that has merged it."""
    for squash in await _squashes(repo, tip, work):
        if squash.verified == work or await _is_built_on(repo, squash.verified, work):
            return squash.commit
    return None


async def merge_onto(repo: GitRepo, tip: str, work: str) -> Merged:
    """Merge the work into the tip. Work that was built on other work, which the tip has as a
    squash, would conflict with that squash: git does not know that they are the same. A temporary
    commit on the tip that has both as parents tells it."""
    known = [
        squash.verified
        for squash in await _squashes(repo, tip, work)
        if await _is_built_on(repo, work, squash.verified)
    ]
    if not known:
        return await repo.merge(tip, work)
    tree = await repo.tree_of(tip)
    joined = await repo.commit_tree(tree, [tip, *dict.fromkeys(known)], "Squashed work\n")
    return await repo.merge(joined, work)


async def _squashes(repo: GitRepo, tip: str, work: str) -> list[Squash]:
    """The squashes on the branch since the work was begun, the newest first."""
    output = await repo.text(
        "the squashed work",
        *("log", f"--grep=^{COMMIT_TRAILER}: ", f"--format={_FORMAT}", f"{work}..{tip}"),
    )
    fields = [line.split() for line in output.splitlines()]
    return [Squash(*field) for field in fields if len(field) == len(Squash._fields)]


async def _is_built_on(repo: GitRepo, newer: str, older: str) -> bool:
    """False if one of them is no longer in the repository."""
    if await repo.commit_of(newer) is None or await repo.commit_of(older) is None:
        return False
    return await repo.is_ancestor(older, newer)
