"""The local runner: the default, which needs nothing but git.

It runs the jobs of the policy, or the workflow files of the commit where `act` is installed.
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
from shiftboss.evidence.ci.local.named_jobs import Dependencies, NamedJobs, Source, has_commit
from shiftboss.evidence.ci.local.runs import LocalRun, LocalRunRecord, LocalRunRecords, made_anew
from shiftboss.evidence.mirror.mirror import Mirror, Mirrors
from shiftboss.protocol.ci import CiDemand, CiJob, CiReport, CiRun
from shiftboss.system.background_delete import BackgroundDelete

log = logging.getLogger(__name__)

AT_ONCE: Final = 2


class LocalCi:
    """Keeps results, mirrors and checkouts in its folder. `at_once` jobs run together."""

    def __init__(
        self, folder: Path, *, at_once: int = AT_ONCE, writing: asyncio.Lock | None = None
    ) -> None:
        self._records = LocalRunRecords(folder / "results")
        self._mirrors = Mirrors(folder / "mirrors")
        self._deletion = BackgroundDelete(folder / "checkouts", writing)
        self.dependencies = Dependencies(self._mirrors, self._deletion)
        self._turns = asyncio.Semaphore(at_once)
        self._named_jobs = NamedJobs(self._deletion, self._turns)
        # One for each repository: its runs are counted, and a slow fetch holds up nobody else.
        self._starting: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._opening = asyncio.Lock()
        self._is_open = False
        self._works: dict[tuple[str, str, str], LocalRun] = {}

    async def start(self, demand: CiDemand, sha: str) -> None:
        """A run that was called off, because this machine could not go on, is made anew."""
        async with self._starting[demand.repo]:
            work = self._works.get(_key(demand, sha))
            if work is not None:
                if not await work.has_ended():
                    return
                await asyncio.wait((work.task,))
            record = await self._usable(demand, sha)
            if record is not None and record.has_ended and not _was_called_off(record):
                return
            if record is None or record.has_ended:
                record = await self._new_record(demand, sha)
            self._set_to_work(demand, record)

    async def look(self, demand: CiDemand, sha: str) -> CiReport:
        """An interrupted run goes on when somebody looks at it."""
        record = await self._usable(demand, sha)
        if record is None:
            return CiReport(sha=sha, runs=[], complete=False)
        if not record.has_ended and _key(demand, sha) not in self._works:
            record = await self._gone_on(demand, sha) or record
        return CiReport(sha=sha, runs=record.runs, complete=record.has_ended)

    async def restart(self, demand: CiDemand, sha: str, run: CiRun) -> bool:
        """It is called off and made anew, with another number and all of its jobs."""
        key = _key(demand, sha)
        async with self._starting[demand.repo]:
            work = self._works.get(key)
            if work is not None:
                work.task.cancel()
                await asyncio.wait((work.task,))
            record = await self._usable(demand, sha)
            if record is None:
                return False
            if run.run_id in [one.run_id for one in record.runs]:
                record = await self._with_anew(demand, record, run.run_id)
            if not record.has_ended:
                self._set_to_work(demand, record)
            return True

    async def log_tail(self, demand: CiDemand, run: CiRun, job: CiJob) -> str | None:
        record = await asyncio.to_thread(self._records.load, demand, run.sha)
        runs = record.runs if record is not None else []
        tails = (
            one.log_tail
            for found in runs
            if found.run_id == run.run_id
            for one in found.jobs
            if one.name == job.name
        )
        return next(tails, None)

    async def probe(self, demand: CiDemand, sha: str, jobs: Collection[str]) -> bool:
        """Whether all of these jobs pass. Run once, each by itself, and remembered nowhere: a probe
        is no run of the commit."""
        await self._open()
        source = await self._source(demand, sha, await self.dependencies.commits(demand))
        wanted = {name: demand.policy.jobs[name].model_copy(update={"needs": []}) for name in jobs}
        ends: dict[str, CiJob] = {}

        async def tell(job: CiJob) -> None:
            ends[job.name] = job

        await self._named_jobs.run(source, wanted, {}, tell)
        return all(job.state == "success" for job in ends.values())

    async def close(self) -> None:
        tasks = [work.task for work in self._works.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._deletion.close()

    async def _gone_on(self, demand: CiDemand, sha: str) -> LocalRunRecord | None:
        """What was interrupted is set to work. It may have ended since it was looked at, or have
        been called off: then it stays so, for a look does not make a run."""
        async with self._starting[demand.repo]:
            record = await self._usable(demand, sha)
            is_open = record is not None and not record.has_ended
            if record is not None and is_open and _key(demand, sha) not in self._works:
                self._set_to_work(demand, record)
            return record

    async def _with_anew(
        self, demand: CiDemand, record: LocalRunRecord, run_id: str
    ) -> LocalRunRecord:
        number = str(await asyncio.to_thread(self._records.next_number, demand))
        runs = [made_anew(one, number) if one.run_id == run_id else one for one in record.runs]
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
        jobs = (
            {"": list(demand.policy.jobs)} if demand.policy.jobs else await _from_files(mirror, sha)
        )
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
        """Fetched when the commit is not there already."""
        mirror = await self._mirrors.of(demand.repo_path)
        if mirror.path.exists() and await has_commit(mirror, sha):
            return mirror
        await mirror.refresh()
        if not await has_commit(mirror, sha):
            raise CiUnavailable(
                f"there is no commit {sha} on any branch of {demand.repo}",
                reason="commit",
                retry_after_seconds=SET_UP_SECONDS,
                hint="push it first, and give its full name",
            )
        return mirror

    def _set_to_work(self, demand: CiDemand, record: LocalRunRecord) -> None:
        work = LocalRun(demand, record, self._records)
        key = _key(demand, record.sha)
        self._works[key] = work
        work.task = asyncio.create_task(self._run(work))
        work.task.add_done_callback(lambda _: self._works.pop(key, None))

    async def _run(self, work: LocalRun) -> None:
        try:
            await self._run_all(work)
        except Exception as error:
            log.warning("CI of %s %s", work.demand.repo, work.record.sha, exc_info=error)
            await work.call_off(_cause(error))

    async def _run_all(self, work: LocalRun) -> None:
        demand, sha = work.demand, work.record.sha
        await self._open()
        source = await self._source(demand, sha, work.record.dependencies)
        if demand.policy.jobs:
            (run,) = work.record.runs
            states = {job.name: job.state for job in run.jobs}
            await self._named_jobs.run(source, demand.policy.jobs, states, work.tell)
            return
        for workflow in await workflows_in(source.mirror, sha):
            if work.waits_for(workflow.path):
                await self._run_file(work, source, workflow)

    async def _run_file(self, work: LocalRun, source: Source, workflow: Workflow) -> None:
        push = PushEvent(source.sha, work.demand.branch)
        async with self._turns:
            await work.begin(workflow.path)
            async with source.beside() as variables:
                jobs = await run_workflow(
                    _act(), source.mirror, push, workflow, self._deletion, variables
                )
        await work.end(workflow.path, jobs)

    async def _open(self) -> None:
        async with self._opening:
            if not self._is_open:
                await self._deletion.open()
                self._is_open = True

    async def _source(self, demand: CiDemand, sha: str, commits: Mapping[str, str]) -> Source:
        mirror = await self._mirror_with(demand, sha)
        return Source(mirror, sha, partial(self.dependencies.beside, demand, commits))


async def _from_files(mirror: Mirror, sha: str) -> dict[str, list[str]]:
    _act()
    found = await workflows_in(mirror, sha)
    if not found:
        raise _nothing_to_run("the commit has no workflow files")
    return {one.path: list(one.jobs.values()) or [one.path] for one in found}


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
    what = [
        {name: job.model_dump(mode="json") for name, job in demand.policy.jobs.items()},
        {name: one.model_dump(mode="json") for name, one in demand.dependencies.items()},
    ]
    return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()


def _was_called_off(record: LocalRunRecord) -> bool:
    return any(job.state == "cancelled" for run in record.runs for job in run.jobs)


def _cause(error: Exception) -> str:
    """Of several jobs that could not go on, the first one's words."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error.detail if isinstance(error, ShiftbossError) else f"a mistake of ours: {error!r}"
