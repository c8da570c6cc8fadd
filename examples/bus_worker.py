"""A complete worker: register, poll, acknowledge, execute, done, poll again.

    shiftboss serve &
    shiftboss task add task-123 --title "Implement login"
    shiftboss task submit task-123
    python examples/bus_worker.py z.ai1

Ctrl-C stops it. Here a task is just a title; put your own work into `execute`.
"""

from __future__ import annotations

import asyncio
import sys

from shiftboss import BusWorker
from shiftboss.errors import Conflict


async def execute(title: str) -> None:
    """The work itself. An error fails the task."""
    if "impossible" in title:
        raise ValueError(f"cannot do it: {title}")
    await asyncio.sleep(0)


async def work(name: str) -> None:
    async with BusWorker(name) as worker:
        async for task in worker.tasks():
            print(f"{task.bead_id}: {task.title}", flush=True)
            try:
                await execute(task.title)
                await task.done()
            except ValueError as error:
                await task.failed(str(error))
            except Conflict as error:
                print(f"{task.bead_id} no longer belongs to this worker: {error}", file=sys.stderr)


if __name__ == "__main__":
    try:
        asyncio.run(work(sys.argv[1]))
    except KeyboardInterrupt:
        sys.exit(130)
