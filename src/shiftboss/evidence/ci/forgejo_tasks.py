"""Runs from tasks: one row for every job that a runner has taken."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from shiftboss.evidence.ci.rows import Row, newest_runs
from shiftboss.evidence.ci.run_reports import run_of, with_jobs
from shiftboss.evidence.ci.statuses import Status, without_tasks
from shiftboss.protocol.ci import CiJob, CiRun
from shiftboss.protocol.policy import CiPolicy


def runs_from_tasks(rows: Sequence[Row], sha: str) -> list[CiRun]:
    runs = []
    for newest in newest_runs(rows):
        jobs = jobs_from_tasks([row for row in rows if row.number == newest.number])
        runs.append(with_jobs(run_of(newest, sha, []), jobs))
    return runs


def jobs_from_tasks(rows: Sequence[Row]) -> list[CiJob]:
    """Of one run. The newest task of a job counts: one that was started again has several."""
    latest = {row.name: row for row in sorted(rows, key=lambda row: row.id)}
    return [CiJob(name=row.name, state=row.state, url=row.url) for row in latest.values()]


def with_what_waits(runs: Sequence[CiRun], statuses: Sequence[Status], sha: str) -> list[CiRun]:
    """Jobs that no runner has taken have no task; the statuses of the commit name them, and whole
    runs of them."""
    known = {run.run_id for run in runs}
    unknown = {one.run: one for one in statuses if one.run not in known}
    more = [
        CiRun(run_id=one.run, sha=sha, state="waiting", event=one.event, workflow=one.workflow)
        for one in unknown.values()
    ]
    return [
        with_jobs(run, [*run.jobs, *without_tasks(statuses, run.run_id, run.jobs)])
        for run in (*more, *runs)
    ]


def are_told(runs: Sequence[CiRun], statuses: Sequence[Status]) -> bool:
    """Whether the statuses name every run, and so all of its jobs."""
    return {run.run_id for run in runs} <= {status.run for status in statuses}


def are_all_there(
    runs: Sequence[CiRun], rows: Sequence[Row], policy: CiPolicy, today: datetime
) -> bool:
    """Without statuses, a job that is asked for and has no task may still wait for a runner. When
    nothing has happened for long, it will not come any more."""
    there = {job.name.lower() for run in runs for job in run.jobs}
    if all(name.lower() in there for name in (*policy.required_jobs, *policy.must_succeed)):
        return True
    moved = max((row.updated_at for row in rows if row.updated_at is not None), default=None)
    return moved is not None and today - moved > timedelta(seconds=policy.stuck_after)
