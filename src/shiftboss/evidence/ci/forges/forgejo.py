"""The CI provider for Forgejo and Gitea Actions, in all their versions.

Newer versions list the runs of a commit, and the jobs of a run. Older ones only list tasks: one row
for every job that a runner has taken, of all commits, the newest first.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Final
from urllib.parse import quote

from shiftboss.evidence.ci.forge_api.access import Access, access_to, no_repository
from shiftboss.evidence.ci.forge_api.http import ForgeHttp
from shiftboss.evidence.ci.forge_api.lru_cache import LruCache
from shiftboss.evidence.ci.forge_api.pages import ForgeList
from shiftboss.evidence.ci.forge_api.rows import (
    ForgeRow,
    is_of,
    jobs_in,
    newest_first,
    numbered,
    rows_of,
    runs_in,
)
from shiftboss.evidence.ci.forge_api.run_reports import (
    CACHED_MAX,
    CANCEL_PAUSE_SECONDS,
    RunReports,
    can_rerun,
    rerun,
    run_of,
    sorted_runs,
)
from shiftboss.evidence.ci.forges.forgejo_tasks import (
    CommitSearch,
    Status,
    have_required_jobs,
    have_statuses,
    jobs_from_tasks,
    jobs_without_tasks,
    likely_rows,
    one_row_per_run,
    rows_with_status,
    runs_from_tasks,
    statuses_in,
    with_waiting_jobs,
)
from shiftboss.evidence.ci.states import OPEN, all_ended
from shiftboss.protocol.ci import CiDemand, CiJob, CiReport, CiRun
from shiftboss.rules.contract.ci_runs import newest_runs

PAGE_ROWS: Final = "50"
# A commit whose tasks are on a later page was pushed long ago.
SEARCHED_PAGES: Final = 3

_RUN_MEMBERS: Final = ("workflow_runs", "entries", "runs")
_JOB_MEMBERS: Final = ("jobs", "entries", "workflow_jobs")


class ForgejoCi:
    def __init__(
        self,
        http: ForgeHttp,
        today: Callable[[], datetime] | None = None,
        cancel_pause: float = CANCEL_PAUSE_SECONDS,
    ) -> None:
        self._http = http
        self._cancel_pause = cancel_pause
        self._today = today or (lambda: datetime.now(UTC))
        self._reports = RunReports(http)
        # The commits that had no rows last time, by repository and list.
        self._missing: LruCache[tuple[str, str, str], bool] = LruCache(CACHED_MAX)
        # The origins of forges that do not have this list.
        self._without_runs: set[object] = set()
        self._without_jobs: set[object] = set()

    async def start(self, demand: CiDemand, sha: str) -> None:
        """Nothing to do: the push starts CI."""

    async def look(self, demand: CiDemand, sha: str) -> CiReport:
        access = await access_to(demand, "/api/v1", "token")
        if access.origin not in self._without_runs:
            rows = await self._rows(access, "runs", sha)
            if rows is not None:
                return await self._report_on_runs(access, demand, sha, rows)
        rows = await self._rows(access, "tasks", sha)
        if rows is None:
            raise no_repository(demand, access)
        self._without_runs.add(access.origin)
        return await self._report_on_tasks(access, demand, sha, rows)

    async def log_tail(
        self,
        demand: CiDemand,
        run: CiRun,  # noqa: ARG002 - part of the port
        job: CiJob,
    ) -> str | None:
        """A task has an id of its own, which the endpoint for logs does not accept."""
        if job.job_id is None:
            return None
        access = await access_to(demand, "/api/v1", "token")
        return await self._http.log_tail(access, f"/actions/jobs/{quote(job.job_id)}/logs")

    async def restart(self, demand: CiDemand, sha: str, run: CiRun) -> bool:
        """Forgejo can restart runs since 17, Gitea since 1.26. Forgejo 16 could cancel a run, but
        not restart it. So the restart is tried first: a forge that supports it answers that the run
        is still under way."""
        access = await access_to(demand, "/api/v1", "token")

        async def find_run() -> ForgeRow | None:
            if access.origin in self._without_runs:
                return None
            rows = await self._rows(access, "runs", sha) or []
            return numbered([row for row in rows if is_of(row, sha)], run.run_id)

        row = await find_run()
        if row is None:
            return False
        if row.state in OPEN:
            supported = await can_rerun(self._http, access, row)
            if not supported:
                return supported is None
        return await rerun(self._http, access, find_run, self._cancel_pause)

    async def _report_on_runs(
        self, access: Access, demand: CiDemand, sha: str, rows: list[ForgeRow]
    ) -> CiReport:
        own_rows = rows_of(rows, sha)
        if not own_rows:
            likely = await self._rows_without_sha(access, demand, sha, rows)
            runs = [run_of(row, "", []) for row in newest_runs(newest_first(likely))]
            return self._reports.report(access, sha, runs, complete=False)

        async def list_jobs(row: ForgeRow) -> list[CiJob]:
            return await self._jobs(access, sha, row)

        own = sorted_runs(own_rows, demand)
        runs = await self._reports.runs(access, sha, own.counted, list_jobs)
        return self._reports.report(access, sha, runs, all_ended(runs), own.others)

    async def _report_on_tasks(
        self, access: Access, demand: CiDemand, sha: str, rows: list[ForgeRow]
    ) -> CiReport:
        tasks = rows_of(rows, sha)
        if not tasks:
            likely = await self._rows_without_sha(access, demand, sha, rows)
            runs = runs_from_tasks(likely, "", demand)
            return self._reports.report(access, sha, runs, complete=False)
        runs = runs_from_tasks(tasks, sha, demand)
        complete = False
        if all_ended(runs):
            listed = {row.number for row in tasks}
            statuses = await self._statuses(access, sha)
            runs = with_waiting_jobs(runs, listed, statuses, sha)
            complete = all_ended(runs) and (
                have_statuses(runs, statuses)
                or have_required_jobs(runs, tasks, demand.policy, self._today())
            )
        others = sorted_runs(one_row_per_run(tasks), demand).others
        return self._reports.report(access, sha, runs, complete, others)

    async def _rows_without_sha(
        self, access: Access, demand: CiDemand, sha: str, rows: list[ForgeRow]
    ) -> list[ForgeRow]:
        """Rows without a commit that are likely of this one: a reason to wait, never to pass."""
        rows = [row for row in rows if not row.sha]
        if not rows:
            return []
        statuses = await self._statuses(access, sha)
        matching = rows_with_status(rows, statuses)
        if matching:
            return matching
        tip = await self._http.json(access, f"/branches/{quote(demand.branch, safe='')}")
        return likely_rows(rows, demand.branch, sha, tip and tip.body, self._today())

    async def _rows(self, access: Access, what: str, sha: str) -> list[ForgeRow] | None:
        """The rows of the commit, and rows without a commit. None if there is no such list.

        Runs can be filtered by commit; a forge without that filter returns all, as it does for
        tasks. The first request reads some pages, because the commit may have been pushed while no
        server ran. After that, the first rows can only appear on the first page.
        """
        query = {"head_sha": sha} if what == "runs" else {}
        query["limit"] = PAGE_ROWS
        listed = ForgeList(self._http, access, f"/actions/{what}", query, *_RUN_MEMBERS)
        search = CommitSearch(sha)
        was_missing = self._missing.get((access.base, what, sha)) is not None
        async with aclosing(listed.pages()) as pages:
            async for page in pages:
                search.add(list(runs_in(page)))
                if search.is_over(1 if was_missing else SEARCHED_PAGES):
                    break
        if not listed.exists:
            return None
        if not search.has_some:
            self._missing.put((access.base, what, sha), True)
        return search.rows

    async def _jobs(self, access: Access, sha: str, row: ForgeRow) -> list[CiJob]:
        if access.origin not in self._without_jobs:
            jobs = await self._listed_jobs(access, row)
            if jobs is not None:
                return jobs
        tasks = await self._rows(access, "tasks", sha)
        if tasks is None:
            return []
        self._without_jobs.add(access.origin)
        jobs = jobs_from_tasks([task for task in tasks if task.number == row.number])
        return [*jobs, *jobs_without_tasks(await self._statuses(access, sha), row.number, jobs)]

    async def _listed_jobs(self, access: Access, row: ForgeRow) -> list[CiJob] | None:
        """All jobs: a failed one may be on the last page. None if there is no such list."""
        path, query = f"/actions/runs/{row.id}/jobs", {"limit": PAGE_ROWS}
        rows = await ForgeList(self._http, access, path, query, *_JOB_MEMBERS).all()
        return None if rows is None else list(jobs_in(rows))

    async def _statuses(self, access: Access, sha: str) -> list[Status]:
        """The declared total is that of the page. Anyone who can push can add statuses."""
        path, query = f"/commits/{quote(sha)}/status", {"limit": PAGE_ROWS}
        listed = ForgeList(self._http, access, path, query, "statuses", trusts_total=False)
        return statuses_in(await listed.all() or [])
