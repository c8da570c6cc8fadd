"""Workers that report without a pause and remember the answers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

import httpx2

WORKERS = 64
SWARMS = ("swarm-a", "swarm-b", "swarm-c", "swarm-d")
TASKS_TOTAL = 1000
ANSWER_SECONDS = 20.0


class PacketReporter:
    """Reports one packet. A report without an answer is sent again unchanged."""

    def __init__(self, number: int) -> None:
        self.swarm_id = SWARMS[number % len(SWARMS)]
        self.packet_id = number + 1
        self.answered = 0
        self.cut_off = 0
        self.finished = False

    async def run(self, http: httpx2.AsyncClient, up: asyncio.Event) -> None:
        registration = {"packet_name": f"packet-{self.packet_id}", "worktree": "/w"}
        await self._report(http, up, "register", registration)
        while not self.finished and self.answered < TASKS_TOTAL:
            number = self.answered + 1
            progress = {"task_id": f"task-{number}", "task_name": "work", "status": "completed"}
            await self._report(http, up, "progress", progress | {"tasks_completed": number})
            self.answered = number

    async def _report(
        self,
        http: httpx2.AsyncClient,
        up: asyncio.Event,
        kind: str,
        members: Mapping[str, object],
    ) -> None:
        body = {"packet_id": self.packet_id, "tasks_total": TASKS_TOTAL, **members}
        while True:
            await up.wait()
            try:
                answer = await http.post(f"/swarm/{self.swarm_id}/{kind}", json=body)
            except httpx2.ConnectError:
                await asyncio.sleep(0)  # until the test has noticed that the server is dead
                continue
            except httpx2.TransportError:
                self.cut_off += 1  # the report may or may not have been stored
                continue
            assert answer.status_code == 200, answer.text
            return


def answered(workers: Iterable[PacketReporter]) -> dict[int, int]:
    """The last answered report of each packet."""
    return {worker.packet_id: worker.answered for worker in workers}
