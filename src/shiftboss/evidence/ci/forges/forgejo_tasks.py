"""Runs from the tasks and the commit statuses of Forgejo and Gitea.

A task is one row for every job that a runner has taken. The statuses of a commit name its runs and
the jobs that wait. They are never proof: Forgejo shows a skipped job as a success there, and anyone
who can push can write a status that names an older run.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from shiftboss.evidence.ci.forge_api.rows import ForgeRow, is_of
from shiftboss.evidence.ci.forge_api.run_reports import run_of
from shiftboss.evidence.ci.states import with_jobs
from shiftboss.protocol.ci import CiDemand, CiJob, CiRun
from shiftboss.protocol.policy import CiPolicy
from shiftboss.rules.contract.ci_runs import counts, job_key, newest_runs

# "<workflow> / <job> (<event>)"
_CONTEXT: Final = re.compile(r"(?P<workflow>.*?) / (?P<job>.*) \((?P<event>\w+)\)", re.DOTALL)
RECENT: Final = timedelta(hours=1)

_RUN: Final = re.compile(r"/actions/runs/(\d+)(?:/|$)")


# Tasks of several commits are interleaved, but not further apart than this.
APART_ROWS_MAX: Final = 25


class CommitSearch:
    """The rows of a commit, and rows without one, from a list of all commits, newest first."""

    def __init__(self, sha: str) -> None:
        self.rows: list[ForgeRow] = []
        self._sha = sha
        self._pages = 0
        self._others = 0
        self._since_last = 0

    @property
    def has_some(self) -> bool:
        return any(is_of(row, self._sha) for row in self.rows)

    def add(self, page: Sequence[ForgeRow]) -> None:
        self._pages += 1
        for row in page:
            if is_of(row, self._sha):
                self._since_last = 0
            else:
                self._since_last += 1
                self._others += 1
            if not row.sha or is_of(row, self._sha):
                self.rows.append(row)

    def is_over(self, pages_max: int) -> bool:
        """Whether later pages cannot have rows of the commit. In a list with its rows only, they
        always can; without any row, the search ends after some pages."""
        if not self.has_some:
            return self._pages >= pages_max
        return self._others > 0 and self._since_last >= APART_ROWS_MAX


class Status(NamedTuple):
    """`run` is the number that the web page shows."""

    run: str
    workflow: str
    event: str
    job: str
    is_open: bool


def statuses_in(rows: Iterable[dict[str, Any]]) -> list[Status]:
    """The statuses that Actions wrote; others have no run."""
    statuses = []
    for row in rows:
        context = _CONTEXT.fullmatch(str(row.get("context") or ""))
        run = _RUN.search(str(row.get("target_url") or ""))
        if context is not None and run is not None:
            state = row.get("status") or row.get("state")
            statuses.append(
                Status(
                    run=run[1],
                    workflow=context["workflow"],
                    event=context["event"],
                    job=context["job"],
                    is_open=state == "pending",
                )
            )
    return statuses


def jobs_without_tasks(
    statuses: Iterable[Status], run: str, jobs: Collection[CiJob] = ()
) -> list[CiJob]:
    """The jobs of a run that no runner has taken: they wait, or they were skipped."""
    names = {job.name for job in jobs}
    return [
        CiJob(name=status.job, state="waiting" if status.is_open else "skipped")
        for status in statuses
        if status.run == run and status.job not in names
    ]


def runs_from_tasks(rows: Sequence[ForgeRow], sha: str, demand: CiDemand) -> list[CiRun]:
    """The runs that count, the newest first. A job that was restarted has a new task, but does not
    make its run newer than the others."""
    runs = []
    for of_run in sorted(one_row_per_run(rows), key=_run_number, reverse=True):
        jobs = jobs_from_tasks([row for row in rows if row.number == of_run.number])
        if not of_run.is_fork and counts(of_run, demand):
            runs.append(with_jobs(run_of(of_run, sha, []), jobs))
    return newest_runs(runs)


def one_row_per_run(rows: Iterable[ForgeRow]) -> list[ForgeRow]:
    """The newest task of every run."""
    return list({row.number: row for row in sorted(rows, key=lambda row: row.id)}.values())


def _run_number(row: ForgeRow) -> int:
    return int(row.number) if row.number.isdecimal() else row.id


def jobs_from_tasks(rows: Sequence[ForgeRow]) -> list[CiJob]:
    """The jobs of one run. Of a job that was restarted, the newest task counts."""
    latest = {row.name: row for row in sorted(rows, key=lambda row: row.id)}
    return [CiJob(name=row.name, state=row.state, url=row.url) for row in latest.values()]


def with_waiting_jobs(
    runs: Sequence[CiRun], listed: Collection[str], statuses: Sequence[Status], sha: str
) -> list[CiRun]:
    """Add the jobs, and the whole runs, that no runner has taken: only statuses name them.
    `listed` are the numbers of all runs with tasks, including those that do not count."""
    others = {status.run: status for status in statuses if status.run not in listed}
    waiting = [
        CiRun(
            run_id=status.run,
            sha=sha,
            state="waiting",
            event=status.event,
            workflow=status.workflow,
        )
        for status in others.values()
    ]
    return [
        with_jobs(run, [*run.jobs, *jobs_without_tasks(statuses, run.run_id, run.jobs)])
        for run in (*waiting, *runs)
    ]


def have_statuses(runs: Sequence[CiRun], statuses: Sequence[Status]) -> bool:
    """Whether the statuses name every run, and so all of its jobs."""
    return {run.run_id for run in runs} <= {status.run for status in statuses}


def have_required_jobs(
    runs: Sequence[CiRun], rows: Sequence[ForgeRow], policy: CiPolicy, today: datetime
) -> bool:
    """Whether the policy's jobs are there, or can no longer come: without statuses, a job that has
    no task may still wait for a runner, unless nothing has happened for a long time."""
    names = {job_key(job.name) for run in runs for job in run.jobs}
    required = {job_key(name) for name in (*policy.required_jobs, *(policy.must_succeed or ()))}
    if required and required <= names:
        return True
    last_change = max((row.updated_at for row in rows if row.updated_at is not None), default=None)
    return last_change is not None and today - last_change > timedelta(seconds=policy.stuck_after)


def likely_rows(
    rows: Sequence[ForgeRow], branch: str, sha: str, tip: Any, today: datetime
) -> list[ForgeRow]:
    """Rows without a commit that are likely of this one: recent rows of the branch, while the
    commit is its tip. `tip` is the forge's description of the branch."""
    commit = tip.get("commit") if isinstance(tip, dict) else None
    if not isinstance(commit, dict) or commit.get("id") != sha:
        return []
    return [row for row in rows if row.branch == branch and _is_recent(row, today)]


def rows_with_status(rows: Sequence[ForgeRow], statuses: Collection[Status]) -> list[ForgeRow]:
    """The rows whose run is named by a status of the commit."""
    runs = {status.run for status in statuses}
    return [row for row in rows if row.number in runs]


def _is_recent(row: ForgeRow, today: datetime) -> bool:
    return row.created_at is not None and today - row.created_at < RECENT
