"""Forgejo and Gitea Actions, with what their versions offer.

Newer ones list the runs of a commit, and the jobs of a run. Older ones have a list of tasks alone:
one row for every job that a runner has taken, of all commits, the newest first.
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
    CANCEL_PAUSE_SECONDS,
    FOLLOWED_MAX,
    RunReports,
    knows_reruns,
    rerun,
    run_of,
)
from shiftboss.evidence.ci.forges.forgejo_tasks import (
    Status,
    adopted,
    are_all_there,
    are_told,
    jobs_from_tasks,
    likely_rows,
    runs_from_tasks,
    statuses_in,
    with_what_waits,
    without_tasks,
)
from shiftboss.evidence.ci.states import OPEN, all_ended
from shiftboss.protocol.ci import CiDemand, CiJob, CiReport, CiRun

PAGE_ROWS: Final = 50
JOB_PAGES_MAX: Final = 20
# A commit whose tasks lie deeper than this was pushed long ago.
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
        # How many pages were needed last time.
        self._depths: LruCache[tuple[str, str, str], int] = LruCache(FOLLOWED_MAX)
        # Forges that have no such list, by their address.
        self._without_runs: set[object] = set()
        self._without_jobs: set[object] = set()

    async def start(self, demand: CiDemand, sha: str) -> None:
        """The push has done it."""

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
        run: CiRun,  # noqa: ARG002 - the port's
        job: CiJob,
    ) -> str | None:
        """A task has a number of its own, by which logs cannot be had."""
        if job.job_id is None:
            return None
        access = await access_to(demand, "/api/v1", "token")
        return await self._http.log_tail(access, f"/actions/jobs/{quote(job.job_id)}/logs")

    async def restart(self, demand: CiDemand, sha: str, run: CiRun) -> bool:
        """Forgejo can since 17, Gitea since 1.26; Forgejo 16 could cancel a run, and then not have
        it made anew. So it is tried first: a forge that can says only that the run is under way."""
        access = await access_to(demand, "/api/v1", "token")

        async def find() -> ForgeRow | None:
            if access.origin in self._without_runs:
                return None
            rows = await self._rows(access, "runs", sha) or []
            return numbered([row for row in rows if is_of(row, sha)], run.run_id)

        row = await find()
        if row is None:
            return False
        if row.state in OPEN:
            knows = await knows_reruns(self._http, access, row)
            if not knows:
                return knows is None
        return await rerun(self._http, access, find, self._cancel_pause)

    async def _report_on_runs(
        self, access: Access, demand: CiDemand, sha: str, rows: list[ForgeRow]
    ) -> CiReport:
        found = rows_of(rows, sha)
        if not found:
            likely = await self._nameless(access, demand, sha, rows)
            runs = [run_of(row, "", []) for row in newest_runs(likely)]
            return self._reports.report(access, sha, runs, complete=False)

        async def ask_for_jobs(row: ForgeRow) -> list[CiJob]:
            return await self._jobs(access, sha, row)

        chosen = newest_runs(found)
        runs = await self._reports.runs(access, sha, chosen, ask_for_jobs)
        return self._reports.report(access, sha, runs, all_ended(runs))

    async def _report_on_tasks(
        self, access: Access, demand: CiDemand, sha: str, rows: list[ForgeRow]
    ) -> CiReport:
        found = rows_of(rows, sha)
        if not found:
            likely = await self._nameless(access, demand, sha, rows)
            runs = runs_from_tasks(likely, "")
            return self._reports.report(access, sha, runs, complete=False)
        runs = runs_from_tasks(found, sha)
        complete = False
        if all_ended(runs):
            statuses = await self._statuses(access, sha)
            runs = with_what_waits(runs, statuses, sha)
            complete = all_ended(runs) and (
                are_told(runs, statuses) or are_all_there(runs, found, demand.policy, self._today())
            )
        return self._reports.report(access, sha, runs, complete)

    async def _nameless(
        self, access: Access, demand: CiDemand, sha: str, rows: list[ForgeRow]
    ) -> list[ForgeRow]:
        """Enough to go on waiting, never enough to pass."""
        rows = [row for row in rows if not row.sha]
        if not rows:
            return []
        statuses = await self._statuses(access, sha)
        found = adopted(rows, statuses)
        if found:
            return found
        tip = await self._http.json(access, f"/branches/{quote(demand.branch, safe='')}")
        return likely_rows(rows, demand.branch, sha, tip and tip.body, self._today())

    async def _rows(self, access: Access, what: str, sha: str) -> list[ForgeRow] | None:
        """Of the commit, and those that name none. None where there is no such list.

        Runs can be asked for by commit; a forge that does not know how gives all, like the tasks.
        The first look goes back some pages, for a commit that was pushed while no server was there
        to follow it; what is not found then can only come at the top.
        """
        rows: list[ForgeRow] = []
        pages_max = self._depths.get((access.base, what, sha)) or PAGES_MAX
        for page in range(1, pages_max + 1):
            query = {"head_sha": sha} if what == "runs" else {}
            query |= {"page": str(page), "limit": str(PAGE_ROWS)}
            answer = await self._http.json(access, f"/actions/{what}?{urlencode(query)}")
            if answer is None:
                return None
            read = list(runs_in(answer.body))
            rows += [row for row in read if not row.sha or is_of(row, sha)]
            has_some = any(is_of(row, sha) for row in rows)
            if len(read) < PAGE_ROWS or (has_some and not _go_on(read, sha)):
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
        return [*jobs, *without_tasks(await self._statuses(access, sha), row.number, jobs)]

    async def _listed_jobs(self, access: Access, row: ForgeRow) -> list[CiJob] | None:
        """All of them: a job that failed may be on the last page. None where there is no list."""
        jobs: list[CiJob] = []
        for page in range(1, JOB_PAGES_MAX + 1):
            query = f"limit={PAGE_ROWS}&page={page}" if page > 1 else f"limit={PAGE_ROWS}"
            answer = await self._http.json(access, f"/actions/runs/{row.id}/jobs?{query}")
            if answer is None:
                return None
            found = [job for job in jobs_in(answer.body) if job not in jobs]
            jobs += found
            if len(found) < PAGE_ROWS:
                return jobs
        raise CiUnavailable(
            f"run #{row.number} has more than {len(jobs)} jobs, which are not all looked at",
            reason="answer",
            retry_after_seconds=60,
        )

    async def _statuses(self, access: Access, sha: str) -> list[Status]:
        answer = await self._http.json(access, f"/commits/{quote(sha)}/status?limit={PAGE_ROWS}")
        return statuses_in(answer.body) if answer is not None else []


def _go_on(read: list[ForgeRow], sha: str) -> bool:
    """Tasks of several commits lie in between each other, but not half a page apart."""
    return any(is_of(row, sha) for row in read[-PAGE_ROWS // 2 :])
