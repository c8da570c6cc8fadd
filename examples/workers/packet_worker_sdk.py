"""The packet worker of the conformance kit, with the worker library.

    shiftboss conformance --worker "python examples/workers/packet_worker_sdk.py"

Each line of the file that SHIFTBOSS_STEPS names is one task of the packet: its id, and what to do.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from shiftboss import SwarmWorker

RECOVERABLE = {"network_error", "rate_limit", "test_flake", "dependency_timeout"}


def is_there(path: str) -> bool:
    return Path(path).exists()


async def work(steps: list[str]) -> None:
    worker = SwarmWorker(
        swarm_id=os.environ["SHIFTBOSS_SWARM"],
        packet_id=int(os.environ["SHIFTBOSS_PACKET_ID"]),
        packet_name=os.environ["SHIFTBOSS_PACKET_NAME"],
        worktree=os.environ["SHIFTBOSS_WORKTREE"],
        tasks_total=len(steps),
    )
    async with worker:
        await worker.resume()  # registers; after a restart it continues where it was
        for step in steps[worker.tasks_completed :]:
            task_id, verb, *rest = step.split(" ", 2)
            if verb == "error":
                kind, _, message = rest[0].partition(" ")
                await worker.report_error(task_id, kind, message, kind in RECOVERABLE)
                return
            while verb == "wait" and not is_there(rest[0]):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
            await worker.report_progress(task_id, f"Step {task_id}", "completed")
        await worker.report_complete(os.environ["SHIFTBOSS_FINAL_COMMIT"], True, True)


if __name__ == "__main__":
    asyncio.run(work(Path(os.environ["SHIFTBOSS_STEPS"]).read_text().splitlines()))
