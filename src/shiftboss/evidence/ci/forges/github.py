"""The CI provider for GitHub Actions."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

from shiftboss.evidence.ci.forge_api.access import Access, access_to, no_repository
from shiftboss.evidence.ci.forge_api.http import ForgeHttp
from shiftboss.evidence.ci.forge_api.pages import ForgeList
from shiftboss.evidence.ci.forge_api.rows import (
    ForgeRow,
    is_of,
    jobs_in,
    numbered,
    runs_in,
)
from shiftboss.evidence.ci.forge_api.run_reports import (
    CANCEL_PAUSE_SECONDS,
    RunReports,
    rerun,
    sorted_runs,
)
from shiftboss.evidence.ci.states import all_ended
from shiftboss.protocol.ci import CiDemand, CiJob, CiReport, CiRun
from shiftboss.protocol.policy import CiPolicy

API: Final = "https://api.github.com"
PAGE_ROWS: Final = "100"


class GithubCi:
    def __init__(self, http: ForgeHttp, cancel_pause: float = CANCEL_PAUSE_SECONDS) -> None:
        self._http = http
        self._cancel_pause = cancel_pause
        self._reports = RunReports(http)

    async def start(self, demand: CiDemand, sha: str) -> None:
        """Nothing to do: the push starts CI."""

    async def look(self, demand: CiDemand, sha: str) -> CiReport:
        access = await _access(demand)
        rows = sorted_runs(await self._rows(access, demand, sha), demand)

        async def list_jobs(row: ForgeRow) -> list[CiJob]:
            return await self._jobs(access, row)

        runs = await self._reports.runs(access, sha, rows.counted, list_jobs)
        return self._reports.report(access, sha, runs, all_ended(runs), rows.others)

    async def log_tail(
        self,
        demand: CiDemand,
        run: CiRun,  # noqa: ARG002 - part of the port
        job: CiJob,
    ) -> str | None:
        if job.job_id is None:
            return None
        access = await _access(demand)
        return await self._http.log_tail(access, f"/actions/jobs/{quote(job.job_id)}/logs")

    async def restart(self, demand: CiDemand, sha: str, run: CiRun) -> bool:
        access = await _access(demand)

        async def find_run() -> ForgeRow | None:
            return numbered(await self._rows(access, demand, sha), run.run_id)

        return await rerun(self._http, access, find_run, self._cancel_pause)

    async def _rows(self, access: Access, demand: CiDemand, sha: str) -> list[ForgeRow]:
        query = {"head_sha": sha, "per_page": PAGE_ROWS}
        rows = await ForgeList(self._http, access, "/actions/runs", query, "workflow_runs").all()
        if rows is None:
            raise no_repository(demand, access)
        return [row for row in runs_in(rows) if is_of(row, sha)]

    async def _jobs(self, access: Access, row: ForgeRow) -> list[CiJob]:
        path, query = f"/actions/runs/{row.id}/jobs", {"filter": "latest", "per_page": PAGE_ROWS}
        return list(jobs_in(await ForgeList(self._http, access, path, query, "jobs").all() or []))


async def _access(demand: CiDemand) -> Access:
    return await access_to(_with_api_url(demand), "", "Bearer", API)


def _with_api_url(demand: CiDemand) -> CiDemand:
    """Replace the address of the web page, which people copy from the browser."""
    if (demand.policy.url or "").rstrip("/") not in (
        "https://github.com",
        "https://www.github.com",
    ):
        return demand
    policy: CiPolicy = demand.policy.model_copy(update={"url": API})
    return demand.model_copy(update={"policy": policy})
