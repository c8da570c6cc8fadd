"""Reports from lists of runs: jobs are asked for once, when a run has ended."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from shiftboss.evidence.ci.forge_api.access import Access
from shiftboss.evidence.ci.forge_api.http import ForgeHttp
from shiftboss.evidence.ci.forge_api.lru_cache import LruCache
from shiftboss.evidence.ci.forge_api.rows import ForgeRow
from shiftboss.evidence.ci.states import OPEN, run_state
from shiftboss.protocol.ci import CiJob, CiReport, CiRun

FOLLOWED_MAX: Final = 4000

AskForJobs = Callable[[ForgeRow], Awaitable[list[CiJob]]]


class RunReports:
    """Knows the jobs of ended runs, and the last report on each commit."""

    def __init__(self, http: ForgeHttp) -> None:
        self._http = http
        self._jobs: LruCache[tuple[str, int, str], list[CiJob]] = LruCache(FOLLOWED_MAX)
        self._last: LruCache[tuple[str, str], CiReport] = LruCache(FOLLOWED_MAX)

    async def runs(
        self, access: Access, sha: str, rows: Sequence[ForgeRow], ask_for_jobs: AskForJobs
    ) -> list[CiRun]:
        """While a run goes on, its row says all that there is to wait for. A run that is started
        again has another version, and its jobs are asked for again."""
        runs = []
        for row in rows:
            key = (access.base, row.id, row.version)
            jobs = self._jobs.get(key)
            if jobs is None and row.state not in OPEN:
                jobs = await ask_for_jobs(row)
                if jobs:
                    self._jobs.put(key, jobs)
            runs.append(run_of(row, sha, jobs or []))
        return runs

    def report(self, access: Access, sha: str, runs: list[CiRun], complete: bool) -> CiReport:
        """A run that looks as if it had ended, while there is more to come, is still running."""
        if not complete and not any(run.state in OPEN for run in runs):
            runs = [run.model_copy(update={"state": "running"}) for run in runs]
        report = CiReport(sha=sha, runs=runs, complete=complete)
        unchanged = self._last.get((access.base, sha)) == report
        self._last.put((access.base, sha), report)
        wait_seconds = self._http.wait_seconds(access)
        return report.model_copy(
            update={"unchanged": unchanged, "not_before_seconds": wait_seconds}
        )


def run_of(row: ForgeRow, sha: str, jobs: list[CiJob]) -> CiRun:
    moved_at = row.updated_at if row.state in OPEN else None
    return CiRun(
        run_id=row.number,
        sha=sha,
        state=run_state(row.state),
        event=row.event,
        url=row.url,
        workflow=row.workflow or None,
        moved_at=moved_at.isoformat() if moved_at is not None else None,
        jobs=jobs,
    )


# Having a forge make a run anew.


# Forges make no run anew that is under way, and take a moment to cancel one.
CANCEL_LOOKS: Final = 10
CANCEL_PAUSE_SECONDS: Final = 2.0

DONE: Final = range(200, 300)

Find = Callable[[], Awaitable[ForgeRow | None]]


async def rerun(http: ForgeHttp, access: Access, find: Find, pause_seconds: float) -> bool:
    """A run that is under way is cancelled first. False: there is no such run, the token may not
    do it, or the forge does not know how. `find` tells of the run as it is now."""
    row = await find()
    if row is None:
        return False
    path = f"/actions/runs/{row.id}"
    if row.state in OPEN:
        if await http.post(access, f"{path}/cancel") not in DONE:
            return False
        await _until_over(find, pause_seconds)
    return await http.post(access, f"{path}/rerun") in DONE


async def knows_reruns(http: ForgeHttp, access: Access, row: ForgeRow) -> bool | None:
    """Of a run that is under way; None: it was made anew all the same."""
    status = await http.post(access, f"/actions/runs/{row.id}/rerun")
    return None if status in DONE else status not in (403, 404, 405)


async def _until_over(find: Find, pause_seconds: float) -> None:
    """Or until it has had time enough: then the forge says itself whether it can be made anew."""
    for _ in range(CANCEL_LOOKS):
        row = await find()
        if row is None or row.state not in OPEN:
            return
        await asyncio.sleep(pause_seconds)
