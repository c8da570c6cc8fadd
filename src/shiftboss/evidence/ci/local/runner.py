"""The CI provider `local`, the default: it runs jobs on this machine and needs only git.

It runs the jobs of the policy, or the workflow files of the commit if `act` is installed.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections import defaultdict
from collections.abc import Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Final

from shiftboss.errors import CiUnavailable, ShiftbossError
from shiftboss.evidence.ci.forge_api.access import SET_UP_SECONDS
from shiftboss.evidence.ci.local.act import (
    PushEvent,
    Workflow,
    act_program,
    run_workflow,
    workflows_in,
)
from shiftboss.evidence.ci.local.named_jobs import Dependencies, JobSource, NamedJobs, has_commit
from shiftboss.evidence.ci.local.runs import LocalRun, LocalRunRecord, LocalRunRecords, restarted
from shiftboss.evidence.mirror.mirror import Mirror, Mirrors
from shiftboss.protocol.ci import CiDemand, CiJob, CiReport, CiRun
from shiftboss.system.background_delete import BackgroundDelete

log = logging.getLogger(__name__)

JOBS_AT_ONCE: Final = 2


class LocalCi:
    """Keeps results, mirrors and checkouts in its folder. `at_once` jobs run concurrently."""

    def __init__(
        self, folder: Path, *, at_once: int = JOBS_AT_ONCE, writing: asyncio.Lock | None = None
    ) -> None:
        self._records = LocalRunRecords(folder / "results")
        # The jobs of CI run without a sandbox, so nothing can be hidden from them.
        self._mirrors = Mirrors(folder / "mirrors", hidden=())
        self._deletion = BackgroundDelete(folder / "checkouts", writing)
        self.dependencies = Dependencies(self._mirrors, self._deletion)
        self._slots = asyncio.Semaphore(at_once)
        self._named_jobs = NamedJobs(self._deletion, self._slots)
        # One per repository: its runs are numbered, and a slow fetch must not delay the others.
        self._starting: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._opening = asyncio.Lock()
        self._is_open = False
        self._active: dict[tuple[str, str, str], LocalRun] = {}

    async def start(self, demand: CiDemand, sha: str) -> None:
        """Start the jobs of the commit. A run that was cancelled because this machine could not
        continue it is started again."""
        async with self._starting[demand.repo]:
            active = self._active.get(_key(demand, sha))
            if active is not None:
                if not await active.has_ended():
                    return
                await asyncio.wait((active.task,))
            record = await self._usable(demand, sha)
            if record is not None and record.has_ended and not _was_cancelled(record):
                return
            if record is None or record.has_ended:
                record = await self._new_record(demand, sha)
            self._start_run(demand, record)

    async def look(self, demand: CiDemand, sha: str) -> CiReport:
        """The report from the record on disk. An interrupted run is continued."""
        record = await self._usable(demand, sha)
        if record is None:
            return CiReport(sha=sha, runs=[], complete=False)
        if not record.has_ended and _key(demand, sha) not in self._active:
            record = await self._continue(demand, sha) or record
        return CiReport(sha=sha, runs=record.runs, complete=record.has_ended)

    async def restart(self, demand: CiDemand, sha: str, run: CiRun) -> bool:
        """Cancel the run and start it again, with a new number and all of its jobs."""
        key = _key(demand, sha)
        async with self._starting[demand.repo]:
            active = self._active.get(key)
            if active is not None:
                active.task.cancel()
                await asyncio.wait((active.task,))
            record = await self._usable(demand, sha)
            if record is None:
                return False
            if run.run_id in [recorded.run_id for recorded in record.runs]:
                record = await self._renumbered(demand, record, run.run_id)
            if not record.has_ended:
                self._start_run(demand, record)
            return True

    async def log_tail(self, demand: CiDemand, run: CiRun, job: CiJob) -> str | None:
        record = await asyncio.to_thread(self._records.load, demand, run.sha)
        runs = record.runs if record is not None else []
        tails = (
            recorded_job.log_tail
            for recorded in runs
            if recorded.run_id == run.run_id
            for recorded_job in recorded.jobs
            if recorded_job.name == job.name
        )
        return next(tails, None)

    async def probe(self, demand: CiDemand, sha: str, jobs: Collection[str]) -> bool:
        """Whether all of these jobs pass, each run without its needs. Leaves no record, because a
        probe is not a run of the commit."""
        await self._open()
        source = await self._source(demand, sha, await self.dependencies.commits(demand))
        wanted = {name: demand.policy.jobs[name].model_copy(update={"needs": []}) for name in jobs}
        ends: dict[str, CiJob] = {}

        async def report(job: CiJob) -> None:
            ends[job.name] = job

        await self._named_jobs.run(source, wanted, {}, report)
        return all(job.state == "success" for job in ends.values())

    async def close(self) -> None:
        tasks = [run.task for run in self._active.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._deletion.close()

    async def _continue(self, demand: CiDemand, sha: str) -> LocalRunRecord | None:
        """Continue an interrupted run. It may have ended or been cancelled since its record was
        read; then it stays as it is, because `look` starts no new run."""
        async with self._starting[demand.repo]:
            record = await self._usable(demand, sha)
            is_open = record is not None and not record.has_ended
            if record is not None and is_open and _key(demand, sha) not in self._active:
                self._start_run(demand, record)
            return record

    async def _renumbered(
        self, demand: CiDemand, record: LocalRunRecord, run_id: str
    ) -> LocalRunRecord:
        number = str(await asyncio.to_thread(self._records.next_number, demand))
        runs = [restarted(run, number) if run.run_id == run_id else run for run in record.runs]
        record = record.model_copy(update={"runs": runs})
        await asyncio.to_thread(self._records.save, demand, record)
        return record

    async def _usable(self, demand: CiDemand, sha: str) -> LocalRunRecord | None:
        record = await asyncio.to_thread(self._records.load, demand, sha)
        if record is None or (record.sha, record.plan) != (sha, _plan(demand)):
            return None
        return record

    async def _new_record(self, demand: CiDemand, sha: str) -> LocalRunRecord:
        mirror = await self._mirror_with(demand, sha)
        policy_jobs = list(demand.policy.jobs)
        jobs = {"": policy_jobs} if policy_jobs else await _workflow_jobs(mirror, sha)
        runs = [
            CiRun(
                run_id=str(await asyncio.to_thread(self._records.next_number, demand)),
                sha=sha,
                state="waiting",
                event="push",
                workflow=workflow or None,
                jobs=[CiJob(name=name, state="waiting") for name in names],
            )
            for workflow, names in jobs.items()
        ]
        record = LocalRunRecord(
            sha=sha,
            plan=_plan(demand),
            runs=runs,
            dependencies=await self.dependencies.commits(demand),
        )
        await asyncio.to_thread(self._records.save, demand, record)
        await asyncio.to_thread(self._records.forget_old, demand)
        return record

    async def _mirror_with(self, demand: CiDemand, sha: str) -> Mirror:
        """The mirror, fetched if it does not have the commit yet."""
        mirror = await self._mirrors.of(demand.repo_path)
        if mirror.path.exists() and await has_commit(mirror, sha):
            return mirror
        await mirror.refresh()
        if not await has_commit(mirror, sha):
            raise CiUnavailable(
                f"there is no commit {sha} on any branch of {demand.repo}",
                reason="commit",
                retry_after_seconds=SET_UP_SECONDS,
                hint="push it first, and give its full SHA",
            )
        return mirror

    def _start_run(self, demand: CiDemand, record: LocalRunRecord) -> None:
        run = LocalRun(demand, record, self._records)
        key = _key(demand, record.sha)
        self._active[key] = run
        run.task = asyncio.create_task(self._run(run))
        run.task.add_done_callback(lambda _: self._active.pop(key, None))

    async def _run(self, run: LocalRun) -> None:
        try:
            await self._run_jobs(run)
        except Exception as error:
            log.warning("CI of %s %s", run.demand.repo, run.record.sha, exc_info=error)
            await run.cancel(_cause(error))

    async def _run_jobs(self, active: LocalRun) -> None:
        demand, sha = active.demand, active.record.sha
        await self._open()
        source = await self._source(demand, sha, active.record.dependencies)
        if demand.policy.jobs:
            (run,) = active.record.runs
            states = {job.name: job.state for job in run.jobs}
            await self._named_jobs.run(source, demand.policy.jobs, states, active.report_job)
            return
        for workflow in await workflows_in(source.mirror, sha):
            if active.waits_for(workflow.path):
                await self._run_workflow(active, source, workflow)

    async def _run_workflow(self, active: LocalRun, source: JobSource, workflow: Workflow) -> None:
        push = PushEvent(source.sha, active.demand.branch)
        async with self._slots:
            await active.begin(workflow.path)
            async with source.dependencies() as variables:
                jobs = await run_workflow(
                    _act(), source.mirror, push, workflow, self._deletion, variables
                )
        await active.end(workflow.path, jobs)

    async def _open(self) -> None:
        async with self._opening:
            if not self._is_open:
                await self._deletion.open()
                self._is_open = True

    async def _source(self, demand: CiDemand, sha: str, commits: Mapping[str, str]) -> JobSource:
        mirror = await self._mirror_with(demand, sha)
        return JobSource(mirror, sha, partial(self.dependencies.checked_out, demand, commits))


async def _workflow_jobs(mirror: Mirror, sha: str) -> dict[str, list[str]]:
    _act()
    workflows = await workflows_in(mirror, sha)
    if not workflows:
        raise _nothing_to_run("the commit has no workflow files")
    return {file.path: list(file.jobs.values()) or [file.path] for file in workflows}


def _act() -> str:
    program = act_program()
    if program is None:
        raise _nothing_to_run("`act`, which runs workflow files, is not installed")
    return program


def _nothing_to_run(why: str) -> CiUnavailable:
    return CiUnavailable(
        f"the policy names no jobs, and {why}",
        reason="set_up",
        retry_after_seconds=SET_UP_SECONDS,
        hint="name jobs under ci.jobs in shiftboss.yaml",
    )


def _key(demand: CiDemand, sha: str) -> tuple[str, str, str]:
    return demand.repo, demand.repo_path, sha


def _plan(demand: CiDemand) -> str:
    inputs = [
        {name: job.model_dump(mode="json") for name, job in demand.policy.jobs.items()},
        {name: repo.model_dump(mode="json") for name, repo in demand.dependencies.items()},
    ]
    return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()


def _was_cancelled(record: LocalRunRecord) -> bool:
    return any(job.state == "cancelled" for run in record.runs for job in run.jobs)


def _cause(error: Exception) -> str:
    """The message of the error; of several, that of the first."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error.detail if isinstance(error, ShiftbossError) else f"internal error: {error!r}"
