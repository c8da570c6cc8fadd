"""The workers of a run: each takes a task, completes an attempt at it, and takes the next."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import Collection, Sequence
from typing import Final

from shiftboss.errors import ShiftbossError, UnknownSwarm, UnknownWorker
from shiftboss.orchestrator.attempt.attempt import Attempt
from shiftboss.orchestrator.run.run_context import RunContext
from shiftboss.worker.bus_worker import BusWorker

HEARTBEAT_SECONDS: Final = 15.0
LAST_CALL_SECONDS: Final = 10.0
_WORKER_NAME_CHARACTERS_MAX: Final = 50


class RunWorker:
    """A worker of the run: takes a task, completes an attempt at it, takes the next."""

    def __init__(self, run: RunContext, number: int) -> None:
        self._run = run
        self.name = worker_name(run.client.swarm_id, number)
        self.is_idle = asyncio.Event()
        self.is_idle.set()
        self._attempt: Attempt | None = None

    def end_if(self, bead_id: str, epoch: int) -> None:
        if self._attempt is not None:
            self._attempt.end_if(bead_id, epoch)

    def note_delivered(self, bead_id: str, epoch: int, question_id: int) -> None:
        if self._attempt is not None:
            self._attempt.note_delivered(bead_id, epoch, question_id)

    async def end_if_blocked(self) -> None:
        """The run is over, so no answer will reach an agent that waits for one."""
        if self._attempt is not None:
            await self._attempt.end_if_blocked()

    async def release_task(self) -> None:
        """Put the task that this worker had in an earlier run back into the queue."""
        try:
            await self._run.client.call("reset_worker", worker_name=self.name)
        except (UnknownWorker, UnknownSwarm):
            pass

    async def run(self) -> None:
        async with BusWorker(
            self.name,
            server=self._run.client.server,
            swarm_id=self._run.client.swarm_id,
            heartbeat_seconds=HEARTBEAT_SECONDS,
        ) as worker:
            async for task in worker.tasks():
                if not self._run.knows(task.bead_id):
                    await task.failed("the plan of this run has no such task")
                    continue
                self.is_idle.clear()
                self._attempt = Attempt(self._run, task, self.name)
                try:
                    await self._attempt.run()
                finally:
                    self._attempt = None
                    self.is_idle.set()


def worker_name(swarm_id: str, number: int) -> str:
    """The name of a worker. The limit on it is lower than the limit on the name of a swarm."""
    name = "".join(char if char.isalnum() or char in "._-" else "-" for char in swarm_id)
    if len(name) > _WORKER_NAME_CHARACTERS_MAX:
        digest = hashlib.sha256(swarm_id.encode()).hexdigest()[:8]
        name = f"{name[: _WORKER_NAME_CHARACTERS_MAX - 9]}-{digest}"
    return f"{name.lstrip('._-') or 'run'}-{number}"


async def release_files(run: RunContext, workers: Sequence[RunWorker]) -> None:
    """These workers are gone. Tasks that this run leaves behind do not keep their files from other
    plans."""
    with contextlib.suppress(ShiftbossError, TimeoutError):
        async with asyncio.timeout(LAST_CALL_SECONDS):
            await run.client.release_files([worker.name for worker in workers])


async def run_workers(run: RunContext, workers: list[RunWorker]) -> None:
    """Runs until it is cancelled. Then every agent is ended and its task is given back. The idle
    workers go first: they would be offered a task that is given back."""
    tasks = [asyncio.create_task(worker.run()) for worker in workers]
    try:
        # Not `gather`: it would cancel the tasks as well, and a second cancellation would
        # interrupt giving the tasks back.
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        for task in done:
            task.result()
    finally:
        idle = {
            worker: task
            for worker, task in zip(workers, tasks, strict=True)
            if worker.is_idle.is_set()
        }
        await _cancel(idle.values())
        await release_files(run, list(idle))
        await _cancel(tasks)


async def _cancel(tasks: Collection[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def wait_until_idle(workers: list[RunWorker]) -> None:
    """Wait until no agent runs. Work lands as soon as it is accepted, while its agent may still be
    reporting its cost. The time for that is limited by the agent round."""
    await asyncio.gather(*(worker.is_idle.wait() for worker in workers))
