"""One commit that the local runner is at work on: its record, on disk at every step."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from shiftboss.evidence.ci.records import Record, Records
from shiftboss.evidence.ci.run_reports import with_jobs
from shiftboss.evidence.ci.states import OPEN
from shiftboss.protocol.ci import CiDemand, CiJob, CiRun
from shiftboss.system.cancellation import to_the_end


class Work:
    task: asyncio.Task[None]

    def __init__(self, demand: CiDemand, record: Record, records: Records) -> None:
        self.demand = demand
        self.record = record
        self._records = records
        self._turn = asyncio.Lock()

    async def tell(self, job: CiJob) -> None:
        """Of the jobs of a policy, which are one run."""
        await self._change(lambda run: _with_job(run, job))

    def waits_for(self, workflow: str) -> bool:
        return any(run.workflow == workflow and run.state in OPEN for run in self.record.runs)

    async def begin(self, workflow: str) -> None:
        await self._change(
            lambda run: _in_state(run, "running") if run.workflow == workflow else run
        )

    async def end(self, workflow: str, jobs: Sequence[CiJob]) -> None:
        """A workflow that does nothing at a push has no run, like on a forge. When there would be
        none at all, one that did not happen tells so."""
        if not jobs and len(self.record.runs) > 1:
            await self._keep(lambda runs: [run for run in runs if run.workflow != workflow])
        else:
            await self._change(lambda run: _ended(run, jobs) if run.workflow == workflow else run)

    async def call_off(self, why: str) -> None:
        await self._change(lambda run: _called_off(run, why))

    async def _change(self, change: Callable[[CiRun], CiRun]) -> None:
        await self._keep(lambda runs: [change(run) for run in runs])

    async def _keep(self, change: Callable[[list[CiRun]], list[CiRun]]) -> None:
        """It is on disk before anybody can see it. Whoever is cancelled meanwhile waits for that:
        a save that goes on by itself could come after the next one."""
        async with self._turn:
            record = self.record.model_copy(update={"runs": change(self.record.runs)})
            await to_the_end(asyncio.to_thread(self._records.save, self.demand, record))
            self.record = record


def _with_job(run: CiRun, job: CiJob) -> CiRun:
    return with_jobs(run, [job if one.name == job.name else one for one in run.jobs])


def _in_state(run: CiRun, state: str) -> CiRun:
    jobs = [job.model_copy(update={"state": state}) for job in run.jobs]
    return with_jobs(run, jobs)


def _ended(run: CiRun, jobs: Sequence[CiJob]) -> CiRun:
    return (
        with_jobs(run, jobs) if jobs else run.model_copy(update={"jobs": [], "state": "cancelled"})
    )


def made_anew(run: CiRun, number: str) -> CiRun:
    jobs = [CiJob(name=job.name, state="waiting") for job in run.jobs]
    return run.model_copy(update={"run_id": number, "state": "waiting", "jobs": jobs})


def _called_off(run: CiRun, why: str) -> CiRun:
    """What has ended has ended."""
    off = {"state": "cancelled", "log_tail": why}
    return with_jobs(
        run, [job.model_copy(update=off) if job.state in OPEN else job for job in run.jobs]
    )
