"""Workers that report without a pause: `python -m tests.faults.load URL LEDGER NUMBER`.

Every acknowledged report is a line of the ledger before the next one is sent. A process that
continues an existing ledger is the same workers after a crash.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from tests.chaos.raw_client import RawAnswer, RawClient
from tests.faults.ledger import Ledger

PACKETS = 12
BUS_WORKERS = 4
TASKS_TOTAL = 1000
LEASE_SECONDS = 5
POLL_MS = 500
PAUSE_SECONDS = 0.05
# Then the answer is lost, and the request is repeated.
ANSWER_SECONDS = 20.0
# The attempt is over: its lease has run out while the server or the worker stood still.
LOST = ("not_held", "stale_epoch", "task_ended")


class Reporting:
    """One per process. `number` is part of all names, because each server has its own workers."""

    def __init__(self, url: str, ledger: Path, number: int) -> None:
        self._url = url
        self._number = number
        self._before = Ledger(ledger).read()
        self._ledger = os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._up = asyncio.Event()
        self._up.set()
        self._start = time.time_ns()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for index in range(PACKETS):
                group.create_task(self._report_packets(self._number * 100 + index))
            for index in range(BUS_WORKERS):
                group.create_task(self._take_tasks(f"w{self._number}-{index}"))

    def _note(self, *words: object) -> None:
        os.write(self._ledger, (" ".join(map(str, words)) + "\n").encode())

    async def _ask(
        self, client: RawClient, path: str, body: Mapping[str, object], key: str = ""
    ) -> RawAnswer:
        """Repeat the same request until the server knows what became of it."""
        while True:
            try:
                async with asyncio.timeout(ANSWER_SECONDS):
                    answer = await client.ask(path, dict(body), key)
            except TimeoutError:
                client.drop()
                continue
            if answer.body and answer.status not in (429, 500, 503):
                break
            if answer.status not in (429, 503):
                self._note("failed", path, answer.status)
            await asyncio.sleep(PAUSE_SECONDS)
        if answer.status != 200 and answer.body.get("code") not in LOST:
            self._note("bad", path, answer.status, str(answer.body).replace("\n", " "))
        return answer

    async def _report_packets(self, worker: int) -> None:
        """One packet after the other, which are told apart by their thousands."""
        client = RawClient(self._url, self._up, PAUSE_SECONDS)
        own = [packet for packet in self._before.packets if packet // 1000 == worker]
        for packet_id in itertools.count(max(own, default=worker * 1000)):
            packet = {"packet_id": packet_id, "tasks_total": TASKS_TOTAL}
            registration = packet | {"packet_name": f"p{packet_id}", "worktree": "/w"}
            await self._ask(client, "/swarm/faults/register", registration)
            for count in range(self._before.packets.get(packet_id, 0) + 1, TASKS_TOTAL + 1):
                done = {"task_id": f"t{count}", "task_name": "work", "status": "completed"}
                progress = packet | done | {"tasks_completed": count}
                await self._ask(client, "/swarm/faults/progress", progress)
                self._note("progress", packet_id, count)

    async def _take_tasks(self, name: str) -> None:
        client = RawClient(self._url, self._up, PAUSE_SECONDS)
        await self._ask(client, "/bus/register_worker", {"name": name})
        for number in itertools.count():
            bead_id = f"{name}-{self._start}-{number}"
            added = {"bead_id": bead_id, "title": "A task"}
            await self._ask(client, "/bus/add_task", added, f"add-{bead_id}")
            await self._ask(client, "/bus/submit_task", {"bead_id": bead_id}, f"submit-{bead_id}")
            self._note("submitted", bead_id)
            poll = {"name": name, "timeout_ms": POLL_MS}
            task = (await self._ask(client, "/bus/poll_task", poll)).body.get("task")
            if task is not None:
                await self._do(client, name, task["bead_id"], task["epoch"])

    async def _do(self, client: RawClient, name: str, bead_id: str, epoch: int) -> None:
        report = {"name": name, "bead_id": bead_id, "epoch": epoch}
        key = f"{bead_id}-{epoch}-{self._start}"
        await self._ask(client, "/bus/heartbeat", {"name": name, "lease_seconds": LEASE_SECONDS})
        if (await self._ask(client, "/bus/ack_task", report, f"ack-{key}")).status != 200:
            return
        if (await self._ask(client, "/bus/worker_done", report, f"done-{key}")).status == 200:
            self._note("done", bead_id)


def main() -> None:
    url, ledger, number = sys.argv[1:]
    asyncio.run(Reporting(url, Path(ledger), int(number)).run())


if __name__ == "__main__":
    main()
