"""The CI provider for Forgejo and Gitea Actions, in all their versions.

Newer versions list the runs of a commit, and the jobs of a run. Older ones only list tasks: one row
for every job that a runner has taken, of all commits, the newest first.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final
from urllib.parse import quote, urlencode

from shiftboss.errors import CiUnavailable
from shiftboss.evidence.ci.forge_api.access import Access, access_to, no_repository
from shiftboss.evidence.ci.forge_api.http import ForgeHttp
from shiftboss.evidence.ci.forge_api.lru_cache import LruCache
from shiftboss.evidence.ci.forge_api.rows import (
    ForgeRow,
    is_of,
    jobs_in,
    newest_runs,
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
)
from shiftboss.evidence.ci.forges.forgejo_tasks import (
    Status,
    have_required_jobs,
    have_statuses,
    jobs_from_tasks,
    jobs_without_tasks,
    likely_rows,
    rows_with_status,
    runs_from_tasks,
    statuses_in,
    with_waiting_jobs,
)
from shiftboss.evidence.ci.states import OPEN, all_ended
from shiftboss.protocol.ci import CiDemand, CiJob, CiReport, CiRun

PAGE_ROWS: Final = 50
JOB_PAGES_MAX: Final = 20
# A commit whose tasks are on a later page was pushed long ago.
PAGES_MAX: Final = 3


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
        # How many pages were needed last time, by repository, list and commit.
        self._depths: LruCache[tuple[str, str, str], int] = LruCache(CACHED_MAX)
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
            runs = [run_of(row, "", []) for row in newest_runs(likely)]
            return self._reports.report(access, sha, runs, complete=False)

        async def list_jobs(row: ForgeRow) -> list[CiJob]:
            return await self._jobs(access, sha, row)

        newest = newest_runs(own_rows)
        runs = await self._reports.runs(access, sha, newest, list_jobs)
        return self._reports.report(access, sha, runs, all_ended(runs))

    async def _report_on_tasks(
        self, access: Access, demand: CiDemand, sha: str, rows: list[ForgeRow]
    ) -> CiReport:
        tasks = rows_of(rows, sha)
        if not tasks:
            likely = await self._rows_without_sha(access, demand, sha, rows)
            runs = runs_from_tasks(likely, "")
            return self._reports.report(access, sha, runs, complete=False)
        runs = runs_from_tasks(tasks, sha)
        complete = False
        if all_ended(runs):
            statuses = await self._statuses(access, sha)
            runs = with_waiting_jobs(runs, statuses, sha)
            complete = all_ended(runs) and (
                have_statuses(runs, statuses)
                or have_required_jobs(runs, tasks, demand.policy, self._today())
            )
        return self._reports.report(access, sha, runs, complete)

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
        server ran. After that, new rows can only appear on the first page.
        """
        rows: list[ForgeRow] = []
        pages_max = self._depths.get((access.base, what, sha)) or PAGES_MAX
        for page in range(1, pages_max + 1):
            query = {"head_sha": sha} if what == "runs" else {}
            query |= {"page": str(page), "limit": str(PAGE_ROWS)}
            answer = await self._http.json(access, f"/actions/{what}?{urlencode(query)}")
            if answer is None:
                return None
            page_rows = list(runs_in(answer.body))
            rows += [row for row in page_rows if not row.sha or is_of(row, sha)]
            has_some = any(is_of(row, sha) for row in rows)
            if len(page_rows) < PAGE_ROWS or (has_some and not _may_continue(page_rows, sha)):
                break
        self._depths.put((access.base, what, sha), page if has_some else 1)
        return rows

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
        jobs: list[CiJob] = []
        for page in range(1, JOB_PAGES_MAX + 1):
            query = f"limit={PAGE_ROWS}&page={page}" if page > 1 else f"limit={PAGE_ROWS}"
            answer = await self._http.json(access, f"/actions/runs/{row.id}/jobs?{query}")
            if answer is None:
                return None
            new_jobs = [job for job in jobs_in(answer.body) if job not in jobs]
            jobs += new_jobs
            if len(new_jobs) < PAGE_ROWS:
                return jobs
        raise CiUnavailable(
            f"run #{row.number} has more than {len(jobs)} jobs, too many to read",
            reason="answer",
            retry_after_seconds=60,
        )

    async def _statuses(self, access: Access, sha: str) -> list[Status]:
        answer = await self._http.json(access, f"/commits/{quote(sha)}/status?limit={PAGE_ROWS}")
        return statuses_in(answer.body) if answer is not None else []


def _may_continue(page_rows: list[ForgeRow], sha: str) -> bool:
    """Tasks of several commits are interleaved, but less than half a page apart."""
    return any(is_of(row, sha) for row in page_rows[-PAGE_ROWS // 2 :])
