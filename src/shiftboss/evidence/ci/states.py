"""States of jobs and runs: from the words of the forges to Shiftboss's, and from jobs to their
run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from shiftboss.protocol.ci import CiJob, CiRun, JobState, RunState

OPEN: Final = frozenset[JobState](("waiting", "running"))

_CONCLUSIONS: Final[dict[str, JobState]] = {
    "success": "success",
    "failure": "failure",
    "timed_out": "failure",
    "startup_failure": "failure",
    "cancelled": "cancelled",
    "canceled": "cancelled",
    "stale": "cancelled",
    "skipped": "skipped",
    # It ran and concluded neither way, so it is not a success.
    "neutral": "skipped",
    # A person has to approve it first.
    "action_required": "waiting",
}
_RUNNING: Final = frozenset(("running", "in_progress"))


def job_state(status: str | None, conclusion: str | None = None) -> JobState:
    """Forgejo puts the conclusion into the status; the others have a field for it.

    An unknown conclusion is a failure; any other unknown word means waiting. Neither is ever taken
    for a success.
    """
    status = (status or "").lower()
    if status == "completed":
        return _CONCLUSIONS.get((conclusion or "").lower(), "failure")
    if status in _RUNNING:
        return "running"
    return _CONCLUSIONS.get(status, "waiting")


def run_state(state: JobState) -> RunState:
    """A run whose jobs were all skipped says nothing against the commit. Its jobs show that it says
    nothing for it either."""
    return "success" if state == "skipped" else state


def state_of(jobs: Iterable[JobState]) -> JobState:
    """The state of a run whose jobs have these states."""
    states = set(jobs)
    if "running" in states or ("waiting" in states and states & {"success", "failure"}):
        return "running"
    order: tuple[JobState, ...] = ("waiting", "failure", "cancelled", "success")
    return next((state for state in order if state in states), "skipped" if states else "waiting")


def with_jobs(run: CiRun, jobs: Sequence[CiJob]) -> CiRun:
    """The run with these jobs, and in the state that follows from them."""
    state = run_state(state_of(job.state for job in jobs))
    return run.model_copy(update={"jobs": list(jobs), "state": state})


def all_ended(runs: Sequence[CiRun]) -> bool:
    """False without any run, because CI has not begun; also for a success without any job."""
    return bool(runs) and all(_has_ended(run) for run in runs)


def _has_ended(run: CiRun) -> bool:
    """The jobs count, too: a job may have been restarted after the row of its run was written."""
    if run.state in OPEN or any(job.state in OPEN for job in run.jobs):
        return False
    return bool(run.jobs) or run.state != "success"
