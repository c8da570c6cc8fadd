"""Reports from the runs of a forge, and restarting a run."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, NamedTuple

from shiftboss.evidence.ci.forge_api.access import Access
from shiftboss.evidence.ci.forge_api.http import ForgeHttp
from shiftboss.evidence.ci.forge_api.lru_cache import LruCache
from shiftboss.evidence.ci.forge_api.rows import ForgeRow, newest_first
from shiftboss.evidence.ci.states import OPEN, run_state
from shiftboss.protocol.ci import CiDemand, CiJob, CiReport, CiRun
from shiftboss.rules.contract.ci_runs import counts, newest_runs

CACHED_MAX: Final = 4000
NOT_COUNTED_MAX: Final = 5
# Forges do not restart a run that is under way, and take a moment to cancel one.
CANCEL_POLLS: Final = 10
CANCEL_PAUSE_SECONDS: Final = 2.0

_SUCCESS: Final = range(200, 300)

ListJobs = Callable[[ForgeRow], Awaitable[list[CiJob]]]
FindRun = Callable[[], Awaitable[ForgeRow | None]]


class RunReports:
    """Caches the jobs of ended runs, and the last report on each commit."""

    def __init__(self, http: ForgeHttp) -> None:
        self._http = http
        self._jobs: LruCache[tuple[str, int, str], list[CiJob]] = LruCache(CACHED_MAX)
        self._last: LruCache[tuple[str, str], CiReport] = LruCache(CACHED_MAX)

    async def runs(
        self, access: Access, sha: str, rows: Sequence[ForgeRow], list_jobs: ListJobs
    ) -> list[CiRun]:
        """The jobs of a run are requested once, after it has ended: until then its row says enough.
        A run that is restarted has another version, so its jobs are requested again."""
        runs = []
        for row in rows:
            key = (access.base, row.id, row.version)
            jobs = self._jobs.get(key)
            if jobs is None and row.state not in OPEN:
                jobs = await list_jobs(row)
                if jobs:
                    self._jobs.put(key, jobs)
            runs.append(run_of(row, sha, jobs or []))
        return runs

    def report(
        self,
        access: Access,
        sha: str,
        runs: list[CiRun],
        complete: bool,
        not_counted: Sequence[ForgeRow] = (),
    ) -> CiReport:
        """If the report is not complete but all runs have ended, they count as running."""
        if not complete and not any(run.state in OPEN for run in runs):
            runs = [run.model_copy(update={"state": "running"}) for run in runs]
        others = [run_of(row, sha, []) for row in not_counted[:NOT_COUNTED_MAX]]
        report = CiReport(sha=sha, runs=runs, not_counted=others, complete=complete)
        unchanged = self._last.get((access.base, sha)) == report
        self._last.put((access.base, sha), report)
        wait_seconds = self._http.wait_seconds(access)
        return report.model_copy(
            update={"unchanged": unchanged, "not_before_seconds": wait_seconds}
        )


class SortedRuns(NamedTuple):
    """The runs of a commit that count, and the others; the newest first."""

    counted: list[ForgeRow]
    others: list[ForgeRow]


def sorted_runs(rows: Iterable[ForgeRow], demand: CiDemand) -> SortedRuns:
    rows = newest_first(rows)
    counted = [row for row in rows if not row.is_fork and counts(row, demand)]
    others = [row for row in rows if row not in counted]
    return SortedRuns(newest_runs(counted), others)


def run_of(row: ForgeRow, sha: str, jobs: list[CiJob]) -> CiRun:
    moved_at = row.updated_at if row.state in OPEN else None
    return CiRun(
        run_id=row.number,
        sha=sha,
        state=run_state(row.state),
        event=row.event,
        branch=row.branch,
        url=row.url,
        workflow=row.workflow or None,
        moved_at=moved_at.isoformat() if moved_at is not None else None,
        jobs=jobs,
    )


async def rerun(http: ForgeHttp, access: Access, find_run: FindRun, pause_seconds: float) -> bool:
    """Restart a run; one that is under way is cancelled first. False: there is no such run, the
    token may not restart it, or the forge cannot. `find_run` returns the run as it is now."""
    row = await find_run()
    if row is None:
        return False
    path = f"/actions/runs/{row.id}"
    if row.state in OPEN:
        if await http.post(access, f"{path}/cancel") not in _SUCCESS:
            return False
        await _wait_until_cancelled(find_run, pause_seconds)
    return await http.post(access, f"{path}/rerun") in _SUCCESS


async def can_rerun(http: ForgeHttp, access: Access, row: ForgeRow) -> bool | None:
    """Whether the forge can restart runs, tried with a run under way. None: it was restarted."""
    status = await http.post(access, f"/actions/runs/{row.id}/rerun")
    return None if status in _SUCCESS else status not in (403, 404, 405)


async def _wait_until_cancelled(find_run: FindRun, pause_seconds: float) -> None:
    """Stops waiting after a while: then the response to the restart says whether it worked."""
    for _ in range(CANCEL_POLLS):
        row = await find_run()
        if row is None or row.state not in OPEN:
            return
        await asyncio.sleep(pause_seconds)
