"""Workers that report without a pause and remember the answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tests.chaos.raw_client import RawClient

WORKERS = 64
SWARMS = ("swarm-a", "swarm-b", "swarm-c", "swarm-d")
TASKS_TOTAL = 1000


class PacketReporter:
    """Reports one packet. A report without an answer is sent again unchanged."""

    def __init__(self, number: int) -> None:
        self.swarm_id = SWARMS[number % len(SWARMS)]
        self.packet_id = number + 1
        self.answered = 0
        self.cut_off = 0
        self.finished = False

    async def run(self, client: RawClient) -> None:
        registration = {"packet_name": f"packet-{self.packet_id}", "worktree": "/w"}
        await self._report(client, "register", registration)
        while not self.finished and self.answered < TASKS_TOTAL:
            number = self.answered + 1
            progress = {"task_id": f"task-{number}", "task_name": "work", "status": "completed"}
            await self._report(client, "progress", progress | {"tasks_completed": number})
            self.answered = number
        self.cut_off = client.cut_off
        client.drop()

    async def _report(self, client: RawClient, kind: str, members: Mapping[str, object]) -> None:
        body = {"packet_id": self.packet_id, "tasks_total": TASKS_TOTAL, **members}
        answer = await client.ask(f"/swarm/{self.swarm_id}/{kind}", body)
        assert answer.status == 200, answer


def answered(workers: Iterable[PacketReporter]) -> dict[int, int]:
    """The last answered report of each packet."""
    return {worker.packet_id: worker.answered for worker in workers}
