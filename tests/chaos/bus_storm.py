"""Workers that poll, crash, come back and lie, and an orchestrator that keeps them busy."""

from __future__ import annotations

import asyncio
import itertools
import time
from random import Random
from typing import Any

from tests.chaos.bus_line import Answer, BusLine

LEASE_SECONDS = 5
POLL_MS = 1000
CRASH_CHANCE = 0.03
LIE_CHANCE = 0.02


class CrashError(Exception):
    """The worker has died; it comes back under the same name."""


class Ledger:
    """What the workers were told, to be compared with what the server has written down."""

    def __init__(self, tasks: int) -> None:
        self.tasks = tasks
        self.done: dict[str, str] = {}  # the key of the report that was accepted
        self.crashes = 0
        self.lies = 0
        self.late = 0
        self.finished = asyncio.Event()
        self.up = asyncio.Event()
        self.up.set()

    def accept(self, task: str, key: str) -> None:
        known = self.done.setdefault(task, key)
        assert known == key, f"{task} was done twice: {known}, {key}"
        if len(self.done) == self.tasks:
            self.finished.set()


class StormyWorker:
    def __init__(self, number: int, url: str, ledger: Ledger) -> None:
        self.name = f"w{number}"
        self._line = BusLine(url, ledger.up)
        self._ledger = ledger
        self._chance = Random(number)
        self._keys = itertools.count()
        self._forgotten: dict[str, object] | None = None

    async def run(self) -> None:
        while not self._ledger.finished.is_set():
            try:
                await self._live()
            except (CrashError, OSError):
                self._ledger.crashes += 1
                self._line.drop()
        self._line.drop()

    async def _live(self) -> None:
        await self._ask("register_worker", name=self.name)
        while not self._ledger.finished.is_set():
            self._may_crash()
            await self._may_crash_while_asking("poll_task", name=self.name, timeout_ms=POLL_MS)
            found = (await self._ask("poll_task", name=self.name, timeout_ms=POLL_MS)).body
            if found["task"] is not None:
                await self._work(found["task"])

    async def _work(self, task: dict[str, Any]) -> None:
        mine = {"name": self.name, "bead_id": task["bead_id"], "epoch": task["epoch"]}
        self._may_crash()
        # A short lease, so that what a crash leaves behind comes back soon.
        leased = time.monotonic()
        await self._ask("heartbeat", name=self.name, lease_seconds=LEASE_SECONDS)
        acknowledged = await self._ask("ack_task", self._next_key(), **mine)
        if _was_too_slow(acknowledged, leased):
            return
        assert acknowledged.status == 200, acknowledged
        await self._report_what_was_lost()
        await self._may_lie()
        self._forgotten = mine
        self._may_crash()
        self._forgotten = None
        key = self._next_key()
        if self._chance.random() < CRASH_CHANCE:
            await self._line.send("worker_done", mine, key)
            self._line.drop()  # before or after it was stored: nobody knows
            self._ledger.crashes += 1
        answer = await self._ask("worker_done", key, **mine)
        if _was_too_slow(answer, leased):
            return
        assert answer.status == 200, answer
        self._ledger.accept(task["bead_id"], key)

    async def _report_what_was_lost(self) -> None:
        """The worker died over a task and was given another since: its attempt is over."""
        if self._forgotten is not None:
            answer = await self._ask("worker_done", **self._forgotten)
            assert answer.body["code"] in ("not_held", "stale_epoch"), answer
            self._forgotten = None
            self._ledger.late += 1

    def _next_key(self) -> str:
        return f"{self.name}-{next(self._keys)}"

    def _may_crash(self) -> None:
        if self._chance.random() < CRASH_CHANCE:
            raise CrashError

    async def _may_crash_while_asking(self, operation: str, **body: object) -> None:
        """The request is on its way when the worker dies."""
        if self._chance.random() < CRASH_CHANCE:
            await self._line.send(operation, body)
            raise CrashError

    async def _may_lie(self) -> None:
        """About tasks of others, and about some that never were."""
        if self._chance.random() >= LIE_CHANCE:
            return
        self._ledger.lies += 1
        other = f"task-{self._chance.randrange(self._ledger.tasks * 11 // 10):05}"
        lie = {"name": self.name, "bead_id": other, "epoch": self._chance.randint(7, 9)}
        for operation in ("ack_task", "worker_done", "task_failed"):
            answer = await self._ask(operation, **lie)
            assert answer.status in (404, 409), f"a lie was believed: {lie} {answer}"

    async def _ask(self, operation: str, key: str = "", /, **body: object) -> Answer:
        return await self._line.ask(operation, body, key)


def _was_too_slow(answer: Answer, leased: float) -> bool:
    """On a busy machine a lease can run out between two requests. Before that, nobody else may
    have got the task."""
    is_over = answer.status == 409 and answer.body["code"] in ("not_held", "stale_epoch")
    return is_over and time.monotonic() - leased >= LEASE_SECONDS


async def submit_all(url: str, ledger: Ledger, names: list[str]) -> None:
    line = BusLine(url, ledger.up)
    for name in names:
        added = await line.ask("add_task", {"bead_id": name, "title": f"Title of {name}"})
        assert added.status == 200, added
        submitted = await line.ask("submit_task", {"bead_id": name})
        assert submitted.status == 200, submitted
    line.drop()
