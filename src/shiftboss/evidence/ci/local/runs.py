"""The records of the local runner, one file per commit, and the run of one commit."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from pydantic import Field, ValidationError

from shiftboss.evidence.ci.states import OPEN, all_ended, with_jobs
from shiftboss.protocol.ci import CiDemand, CiJob, CiRun
from shiftboss.protocol.fields import Answer
from shiftboss.system.processes.cancellation import run_to_completion

log = logging.getLogger(__name__)

COMMITS_MAX: Final = 200
_LAST_RUN: Final = "last-run"


class LocalRunRecord(Answer):
    """`plan` is a hash of the jobs: a changed policy makes a new run. `dependencies` are the
    commits of the repos that the repo is built on."""

    sha: str
    plan: str
    runs: list[CiRun]
    dependencies: dict[str, str] = Field(default={})

    @property
    def has_ended(self) -> bool:
        return all_ended(self.runs)


class LocalRunRecords:
    """All methods block. Each repository has a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def load(self, demand: CiDemand, sha: str) -> LocalRunRecord | None:
        path = self._path(demand, sha)
        try:
            return LocalRunRecord.model_validate_json(path.read_bytes())
        except FileNotFoundError:
            return None
        except ValidationError:
            log.warning("%s is damaged; its jobs are run again", path)
            return None

    def save(self, demand: CiDemand, record: LocalRunRecord) -> None:
        _replace(self._path(demand, record.sha), record.model_dump_json().encode())

    def next_number(self, demand: CiDemand) -> int:
        """Runs are numbered per repository, as on forges."""
        path = self._path(demand, "").with_name(_LAST_RUN)
        number = int(path.read_text()) + 1 if path.exists() else 1
        _replace(path, str(number).encode())
        return number

    def forget_old(self, demand: CiDemand) -> None:
        folder = self._path(demand, "").parent
        files = sorted(folder.glob("*.json"), key=lambda file: file.stat().st_mtime, reverse=True)
        for file in files[COMMITS_MAX:]:
            file.unlink(missing_ok=True)

    def _path(self, demand: CiDemand, sha: str) -> Path:
        repository = hashlib.sha256(f"{demand.repo}\0{demand.repo_path}".encode()).hexdigest()
        return self._folder / repository[:32] / f"{sha}.json"


def _replace(path: Path, content: bytes) -> None:
    """A crash leaves the old file or the new one."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.new")
    with temporary.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


class LocalRun:
    """The run of one commit. Its record is on disk after every step."""

    task: asyncio.Task[None]

    def __init__(self, demand: CiDemand, record: LocalRunRecord, records: LocalRunRecords) -> None:
        self.demand = demand
        self.record = record
        self._records = records
        self._saving = asyncio.Lock()

    async def has_ended(self) -> bool:
        """Waits for a save in progress: its file can be read before `record` is updated."""
        async with self._saving:
            return self.record.has_ended

    async def report_job(self, job: CiJob) -> None:
        """Save the state of a job of the policy; these jobs form one run."""
        await self._change(lambda run: _with_job(run, job))

    def waits_for(self, workflow: str) -> bool:
        return any(run.workflow == workflow and run.state in OPEN for run in self.record.runs)

    async def begin(self, workflow: str) -> None:
        await self._change(
            lambda run: _in_state(run, "running") if run.workflow == workflow else run
        )

    async def end(self, workflow: str, jobs: Sequence[CiJob]) -> None:
        """A workflow that does not run on a push has no run, as on a forge. If there would be no
        run at all, one that is cancelled and has no jobs remains."""
        if not jobs and len(self.record.runs) > 1:
            await self._save(lambda runs: [run for run in runs if run.workflow != workflow])
        else:
            await self._change(lambda run: _ended(run, jobs) if run.workflow == workflow else run)

    async def cancel(self, reason: str) -> None:
        await self._change(lambda run: _cancelled(run, reason))

    async def _change(self, change: Callable[[CiRun], CiRun]) -> None:
        await self._save(lambda runs: [change(run) for run in runs])

    async def _save(self, change: Callable[[list[CiRun]], list[CiRun]]) -> None:
        """The record is on disk before it is visible here. A caller that is cancelled waits for the
        save: otherwise it could end after the next one."""
        async with self._saving:
            record = self.record.model_copy(update={"runs": change(self.record.runs)})
            await run_to_completion(asyncio.to_thread(self._records.save, self.demand, record))
            self.record = record


def _with_job(run: CiRun, job: CiJob) -> CiRun:
    return with_jobs(run, [job if old.name == job.name else old for old in run.jobs])


def _in_state(run: CiRun, state: str) -> CiRun:
    jobs = [job.model_copy(update={"state": state}) for job in run.jobs]
    return with_jobs(run, jobs)


def _ended(run: CiRun, jobs: Sequence[CiJob]) -> CiRun:
    return (
        with_jobs(run, jobs) if jobs else run.model_copy(update={"jobs": [], "state": "cancelled"})
    )


def restarted(run: CiRun, number: str) -> CiRun:
    jobs = [CiJob(name=job.name, state="waiting") for job in run.jobs]
    return run.model_copy(update={"run_id": number, "state": "waiting", "jobs": jobs})


def _cancelled(run: CiRun, reason: str) -> CiRun:
    """Jobs that have ended stay as they are."""
    cancelled = {"state": "cancelled", "log_tail": reason}
    return with_jobs(
        run, [job.model_copy(update=cancelled) if job.state in OPEN else job for job in run.jobs]
    )
