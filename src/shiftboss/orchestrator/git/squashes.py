"""Squashed work on the user's branches: finding it, and merging work that was built on it."""

from __future__ import annotations

from collections.abc import Sequence

from shiftboss.evidence.mirror.squashes import SquashHistory
from shiftboss.orchestrator.git.repository import GitRepo, Merged


async def find_squash(repo: GitRepo, tip: str, work: str, accepted: Sequence[str]) -> str | None:
    """The squash on the branch that contains the work: of the work itself, or of one of the
    accepted commits that have merged it."""
    return await SquashHistory(repo.run).find(tip, work, [work, *accepted])


async def merge_onto(repo: GitRepo, tip: str, work: str) -> Merged:
    """Merge the work into the tip, which may have work as squashes that this was built on."""
    return await repo.merge(await SquashHistory(repo.run).joined(tip, work), work)
