"""Workers that poll, crash, come back and make false reports, and tasks to keep them busy."""

from __future__ import annotations

import asyncio
import itertools
import time
from random import Random
from typing import Any

from tests.chaos.raw_client import RawAnswer, RawClient

LEASE_SECONDS = 5
POLL_MS = 1000
CRASH_CHANCE = 0.03
FALSE_REPORT_CHANCE = 0.02


class CrashError(Exception):
    """The worker has crashed; it comes back with the same name."""


class ExpectedResults:
    """What the server has answered to the workers, to be compared with what it has stored."""

    def __init__(self, tasks: int) -> None:
        self.tasks = tasks
        self.done: dict[str, str] = {}  # the idempotency key of the accepted report
        self.crashes = 0
        self.false_reports = 0
        self.late = 0
        self.finished = asyncio.Event()
        self.up = asyncio.Event()
        self.up.set()

    def accept(self, task: str, key: str) -> None:
        first_key = self.done.setdefault(task, key)
        assert first_key == key, f"{task} was done twice: {first_key}, {key}"
        if len(self.done) == self.tasks:
            self.finished.set()


class CrashingWorker:
    def __init__(self, number: int, url: str, expected: ExpectedResults) -> None:
        self.name = f"w{number}"
        self._client = RawClient(url, expected.up)
        self._expected = expected
        self._random = Random(number)
        self._keys = itertools.count()
        self._unreported: dict[str, object] | None = None

    async def run(self) -> None:
        while not self._expected.finished.is_set():
            try:
                await self._live()
            except (CrashError, OSError):
                self._expected.crashes += 1
                self._client.drop()
        await self._report_lost_task()
        self._client.drop()

    async def _live(self) -> None:
        await self._ask("register_worker", name=self.name)
        while not self._expected.finished.is_set():
            self._maybe_crash()
            await self._maybe_crash_during("poll_task", name=self.name, timeout_ms=POLL_MS)
            answer = (await self._ask("poll_task", name=self.name, timeout_ms=POLL_MS)).body
            if answer["task"] is not None:
                await self._work(answer["task"])

    async def _work(self, task: dict[str, Any]) -> None:
        report = {"name": self.name, "bead_id": task["bead_id"], "epoch": task["epoch"]}
        self._maybe_crash()
        # A short lease, so that the task of a crashed worker is reassigned soon.
        leased_at = time.monotonic()
        await self._ask("heartbeat", name=self.name, lease_seconds=LEASE_SECONDS)
        acknowledged = await self._ask("ack_task", self._next_key(), **report)
        if _has_lost_lease(acknowledged, leased_at):
            return
        assert acknowledged.status == 200, acknowledged
        await self._report_lost_task()
        await self._maybe_report_falsely()
        self._unreported = report
        self._maybe_crash()
        self._unreported = None
        key = self._next_key()
        if self._random.random() < CRASH_CHANCE:
            await self._client.send("/bus/worker_done", report, key)
            self._client.drop()  # the report may or may not have been stored
            self._expected.crashes += 1
        answer = await self._ask("worker_done", key, **report)
        if _has_lost_lease(answer, leased_at):
            return
        assert answer.status == 200, answer
        self._expected.accept(task["bead_id"], key)

    async def _report_lost_task(self) -> None:
        """The worker crashed during a task and has another one now, or all tasks are done: its old
        attempt is over."""
        if self._unreported is not None:
            answer = await self._ask("worker_done", **self._unreported)
            assert answer.body["code"] in ("not_held", "stale_epoch"), answer
            self._unreported = None
            self._expected.late += 1

    def _next_key(self) -> str:
        return f"{self.name}-{next(self._keys)}"

    def _maybe_crash(self) -> None:
        if self._random.random() < CRASH_CHANCE:
            raise CrashError

    async def _maybe_crash_during(self, operation: str, **body: object) -> None:
        """The worker crashes after it has sent a request."""
        if self._random.random() < CRASH_CHANCE:
            await self._client.send(f"/bus/{operation}", body)
            raise CrashError

    async def _maybe_report_falsely(self) -> None:
        """Report tasks of other workers, and some that do not exist."""
        if self._random.random() >= FALSE_REPORT_CHANCE:
            return
        self._expected.false_reports += 1
        other = f"task-{self._random.randrange(self._expected.tasks * 11 // 10):05}"
        false_report = {"name": self.name, "bead_id": other, "epoch": self._random.randint(7, 9)}
        for operation in ("ack_task", "worker_done", "task_failed"):
            answer = await self._ask(operation, **false_report)
            assert answer.status in (404, 409), (
                f"a false report was accepted: {false_report} {answer}"
            )

    async def _ask(self, operation: str, key: str = "", /, **body: object) -> RawAnswer:
        return await self._client.ask(f"/bus/{operation}", body, key)


def _has_lost_lease(answer: RawAnswer, leased_at: float) -> bool:
    """On a busy machine a lease can expire between two requests. Before it expires, no other worker
    may get the task."""
    is_lost = answer.status == 409 and answer.body["code"] in (
        "not_held",
        "stale_epoch",
        "task_ended",
    )
    return is_lost and time.monotonic() - leased_at >= LEASE_SECONDS


async def submit_all(url: str, expected: ExpectedResults, names: list[str]) -> None:
    client = RawClient(url, expected.up)
    for name in names:
        # A repeat after a crash of the server may come when the task is done already; only the key
        # tells the server that it is a repeat.
        added = await client.ask(
            "/bus/add_task", {"bead_id": name, "title": f"Title of {name}"}, f"add-{name}"
        )
        assert added.status == 200, added
        submitted = await client.ask("/bus/submit_task", {"bead_id": name}, f"submit-{name}")
        assert submitted.status == 200, submitted
    client.drop()
