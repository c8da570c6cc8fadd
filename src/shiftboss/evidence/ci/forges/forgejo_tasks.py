"""Runs from tasks: one row for every job that a runner has taken."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from shiftboss.evidence.ci.forge_api.rows import ForgeRow, newest_runs, rows_in
from shiftboss.evidence.ci.forge_api.run_reports import run_of
from shiftboss.evidence.ci.states import with_jobs
from shiftboss.protocol.ci import CiJob, CiRun
from shiftboss.protocol.policy import CiPolicy

# The statuses of a commit on Forgejo and Gitea.
#
# They tell which runs a commit has and which of its jobs wait. They are never proof: Forgejo
# shows a job that was skipped as a success there.


# "<workflow> / <job> (<event>)"
_CONTEXT: Final = re.compile(r"(?P<workflow>.*?) / (?P<job>.*) \((?P<event>\w+)\)", re.DOTALL)
_RUN: Final = re.compile(r"/actions/runs/(\d+)(?:/|$)")


class Status(NamedTuple):
    """`run` is the number that people write."""

    run: str
    workflow: str
    event: str
    job: str
    is_open: bool


def statuses_in(body: Any) -> list[Status]:
    """Those that Actions wrote; others have no run. The body may be null."""
    found = []
    for one in rows_in(body, "statuses"):
        context = _CONTEXT.fullmatch(str(one.get("context") or ""))
        run = _RUN.search(str(one.get("target_url") or ""))
        if context is not None and run is not None:
            word = one.get("status") or one.get("state")
            found.append(
                Status(
                    run=run[1],
                    workflow=context["workflow"],
                    event=context["event"],
                    job=context["job"],
                    is_open=word == "pending",
                )
            )
    return found


def without_tasks(
    statuses: Iterable[Status], run: str, jobs: Collection[CiJob] = ()
) -> list[CiJob]:
    """Jobs of a run that no runner has taken: they wait, or else they were passed over."""
    names = {job.name for job in jobs}
    return [
        CiJob(name=one.job, state="waiting" if one.is_open else "skipped")
        for one in statuses
        if one.run == run and one.job not in names
    ]


def runs_from_tasks(rows: Sequence[ForgeRow], sha: str) -> list[CiRun]:
    runs = []
    for newest in newest_runs(rows):
        jobs = jobs_from_tasks([row for row in rows if row.number == newest.number])
        runs.append(with_jobs(run_of(newest, sha, []), jobs))
    return runs


def jobs_from_tasks(rows: Sequence[ForgeRow]) -> list[CiJob]:
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
    runs: Sequence[CiRun], rows: Sequence[ForgeRow], policy: CiPolicy, today: datetime
) -> bool:
    """Without statuses, a job that is asked for and has no task may still wait for a runner. When
    nothing has happened for long, it will not come any more."""
    there = {job.name.lower() for run in runs for job in run.jobs}
    if all(name.lower() in there for name in (*policy.required_jobs, *policy.must_succeed)):
        return True
    moved = max((row.updated_at for row in rows if row.updated_at is not None), default=None)
    return moved is not None and today - moved > timedelta(seconds=policy.stuck_after)


# Rows in which Forgejo left the commit out, as it sometimes does.
#
# The statuses of the commit name its runs; without them, a row of the branch, made lately while
# the commit is the branch's tip, is likely to be the commit's. Either is enough to go on waiting,
# and never enough to pass: whoever can push can write a status, and name an older run in it.


RECENT: Final = timedelta(hours=1)


def likely_rows(
    rows: Sequence[ForgeRow], branch: str, sha: str, tip: Any, today: datetime
) -> list[ForgeRow]:
    """`tip` is what the forge says about the branch."""
    commit = tip.get("commit") if isinstance(tip, dict) else None
    if not isinstance(commit, dict) or commit.get("id") != sha:
        return []
    return [row for row in rows if row.branch == branch and _is_recent(row, today)]


def adopted(rows: Sequence[ForgeRow], statuses: Collection[Status]) -> list[ForgeRow]:
    runs = {status.run for status in statuses}
    return [row for row in rows if row.number in runs]


def _is_recent(row: ForgeRow, today: datetime) -> bool:
    return row.created_at is not None and today - row.created_at < RECENT
