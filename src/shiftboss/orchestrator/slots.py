"""The workers of a run: each takes a task, sees it through, and takes the next."""

from __future__ import annotations

import asyncio
import hashlib
from typing import Final

from shiftboss.errors import UnknownSwarm, UnknownWorker
from shiftboss.orchestrator.attempt import Attempt
from shiftboss.orchestrator.ground import Ground
from shiftboss.worker.bus_worker import BusWorker

HEARTBEAT_SECONDS: Final = 15.0
_NAME_CHARACTERS: Final = 50


def slot_name(swarm_id: str, number: int) -> str:
    """A worker's name is shorter than that of a swarm may be."""
    name = "".join(one if one.isalnum() or one in "._-" else "-" for one in swarm_id)
    if len(name) > _NAME_CHARACTERS:
        digest = hashlib.sha256(swarm_id.encode()).hexdigest()[:8]
        name = f"{name[: _NAME_CHARACTERS - 9]}-{digest}"
    return f"{name.lstrip('._-') or 'run'}-{number}"


class Slot:
    def __init__(self, ground: Ground, number: int) -> None:
        self._ground = ground
        self.name = slot_name(ground.line.swarm_id, number)
        self.is_idle = asyncio.Event()
        self.is_idle.set()

    async def free(self) -> None:
        """What a former run had in hand goes back to the queue."""
        try:
            await self._ground.line.call("reset_worker", worker_name=self.name)
        except (UnknownWorker, UnknownSwarm):
            pass

    async def run(self) -> None:
        server = self._ground.line.server
        async with BusWorker(
            self.name,
            server=server.address,
            token=server.token,
            swarm_id=self._ground.line.swarm_id,
            heartbeat_seconds=HEARTBEAT_SECONDS,
        ) as worker:
            async for task in worker.tasks():
                if not self._ground.knows(task.bead_id):
                    await task.failed("the plan of this run has no such task")
                    continue
                self.is_idle.clear()
                try:
                    await Attempt(self._ground, task, self.name).run()
                finally:
                    self.is_idle.set()


async def run_slots(slots: list[Slot]) -> None:
    """Until it is cancelled; then every agent is ended, and its task given back."""
    tasks = [asyncio.create_task(slot.run()) for slot in slots]
    try:
        # Not `gather`: it would cancel them too, and the second time cuts off the giving back.
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def last_words(slots: list[Slot]) -> None:
    """Until no agent runs. Work lands as soon as it is accepted, and its agent may still say what
    it has done and what that has cost; how long it may take is limited by its round."""
    await asyncio.gather(*(slot.is_idle.wait() for slot in slots))
