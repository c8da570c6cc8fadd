"""The words of the forges, as our states."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from shiftboss.protocol.ci import JobState, RunState

_ENDS: Final[dict[str, JobState]] = {
    "success": "success",
    "failure": "failure",
    "timed_out": "failure",
    "startup_failure": "failure",
    "cancelled": "cancelled",
    "canceled": "cancelled",
    "stale": "cancelled",
    "skipped": "skipped",
    # It ran and said neither yes nor no, so it is no success.
    "neutral": "skipped",
    # Somebody has to allow it first.
    "action_required": "waiting",
}
_RUNNING: Final = frozenset(("running", "in_progress"))

OPEN: Final = frozenset[JobState](("waiting", "running"))


def job_state(status: str | None, conclusion: str | None = None) -> JobState:
    """Forgejo puts the end into the status, the others into the conclusion.

    An end that we do not know is a failure; any other word that we do not know is waiting. Neither
    is ever taken for a success.
    """
    status = (status or "").lower()
    if status == "completed":
        return _ENDS.get((conclusion or "").lower(), "failure")
    if status in _RUNNING:
        return "running"
    return _ENDS.get(status, "waiting")


def run_state(state: JobState) -> RunState:
    """A run all of whose jobs were skipped has nothing against the commit; that it has nothing for
    it either is told by its jobs."""
    return "success" if state == "skipped" else state


def state_of(jobs: Iterable[JobState]) -> JobState:
    """Of a run with these jobs."""
    states = set(jobs)
    if "running" in states or ("waiting" in states and states & {"success", "failure"}):
        return "running"
    order: tuple[JobState, ...] = ("waiting", "failure", "cancelled", "success")
    return next((one for one in order if one in states), "skipped" if states else "waiting")
