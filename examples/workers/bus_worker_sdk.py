"""The bus worker of the conformance kit, with the worker library.

    shiftboss conformance --worker "python examples/workers/bus_worker_sdk.py"

The title of a task says what to do; put your own work in its place.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from shiftboss import BusWorker
from shiftboss.errors import Conflict, NotFound
from shiftboss.worker.bus_task import BusTask


class TaskFailedError(Exception):
    """Its text is the reason."""


def is_there(path: str) -> bool:
    return Path(path).exists()


async def execute(task: BusTask, instruction: str) -> None:
    verb, _, rest = instruction.partition(" ")
    if verb == "wait":
        while not is_there(rest) and not task.is_lost:  # noqa: ASYNC110 - another process makes it
            await asyncio.sleep(0.05)
    elif verb == "fail":
        raise TaskFailedError(rest)
    elif verb == "ask":
        await execute(task, await task.ask(rest))
    elif verb != "done":
        raise TaskFailedError(f"unknown instruction: {instruction}")


async def hand_over_if_full(task: BusTask) -> bool:
    """`context 0.7`: this much of the context is used, unless another worker has freed it."""
    verb, _, usage = task.title.partition(" ")
    if verb != "context" or task.resume_from:
        return False
    answer = await task.heartbeat(context_usage=float(usage))
    if answer["checkpoint_requested"]:
        await task.checkpoint(current_step=1, files_created=[], files_modified=[])
    return task.is_over


async def work() -> None:
    seconds = float(os.environ.get("SHIFTBOSS_HEARTBEAT_SECONDS", "20"))
    name, swarm = os.environ["SHIFTBOSS_WORKER"], os.environ.get("SHIFTBOSS_SWARM")
    async with BusWorker(name, swarm_id=swarm, heartbeat_seconds=seconds) as worker:
        async for task in worker.tasks():
            try:
                if not await hand_over_if_full(task):
                    await execute(task, "done" if task.resume_from else task.title)
                    await task.done()
            except TaskFailedError as failure:
                await task.failed(str(failure))
            except (Conflict, NotFound) as refusal:
                print(f"{task.bead_id}: {refusal}", flush=True)


if __name__ == "__main__":
    try:
        asyncio.run(work())
    except KeyboardInterrupt:
        pass
