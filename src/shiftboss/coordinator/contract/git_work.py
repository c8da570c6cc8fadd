"""Reads the work on a task from git, for reports and checkpoints."""

from __future__ import annotations

from shiftboss.errors import ShiftbossError
from shiftboss.evidence.port import Evidence
from shiftboss.rules.contract.checkpoints import WorkSinceBase
from shiftboss.rules.handoffs.handoffs import Handoff


async def read_git_work(
    evidence: Evidence, handoff: Handoff, commit: str | None = None
) -> WorkSinceBase | None:
    """The work on the task in git, up to a commit or the tip of its branch. None if that cannot be
    read now: a report does not fail because of it."""
    if commit is None and handoff.branch is None:
        return None
    rev = commit or f"refs/heads/{handoff.branch}"
    try:
        return await evidence.work_since(handoff.repo, handoff.base_commit, rev)
    except ShiftbossError:
        return None
