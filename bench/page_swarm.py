"""A swarm of the largest size that the page is made for, and the events of an hour."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import uvloop

from bench.bus_load import Connection, connect

SWARM = "large"
WORKERS = 1000
TASKS = 10_000
# Finished before anybody looks.
DONE = 3000
CONNECTIONS = 32


class LargeSwarm:
    """Its workers have a task each. `work` lets the next ones finish theirs and take another."""

    def __init__(self, url: str, workers: int = WORKERS, tasks: int = TASKS) -> None:
        self._url = url
        self._workers = workers
        self._tasks = tasks
        self._busy: dict[int, str] = {}
        self._next = 0

    def fill(self) -> None:
        _run(self._fill())

    def work(self, cycles: int) -> int:
        """Returns the number of events: done, assigned, started; and each time a heartbeat."""
        _run(self._each(self._turns(cycles), self._cycle))
        return 3 * cycles

    def _turns(self, cycles: int) -> list[int]:
        turns = [number % self._workers for number in range(self._next, self._next + cycles)]
        self._next += cycles
        return turns

    async def _fill(self) -> None:
        submitter = await connect(self._url)
        await _post(submitter, "/swarm/create", {"feature": "Everything at once"})
        await self._each(range(self._tasks), self._add)
        await self._each(range(self._workers), self._register)
        await self._each(range(DONE), self._finish_at_once)
        await self._each(range(self._workers), self._take)

    async def _each(
        self, numbers: Iterable[int], step: Callable[[Connection, int], Awaitable[None]]
    ) -> None:
        """A number is taken by the connection that is free first."""
        waiting = iter(numbers)

        async def send_all(connection: Connection) -> None:
            for number in waiting:
                await step(connection, number)

        connections = [await connect(self._url) for _ in range(CONNECTIONS)]
        await asyncio.gather(*map(send_all, connections))
        for connection in connections:
            connection.close()

    async def _add(self, connection: Connection, number: int) -> None:
        before = [f"t-{number - 100:05}"] if number % 3 == 0 and number >= DONE + 100 else []
        task = f"t-{number:05}"
        title = f"Move module {number} to the new interface, with its tests"
        await _post(
            connection, "/bus/add_task", {"bead_id": task, "title": title, "depends_on": before}
        )
        await _post(connection, "/bus/submit_task", {"bead_id": task})

    async def _register(self, connection: Connection, number: int) -> None:
        await _post(connection, "/bus/register_worker", {"name": _name(number)})

    async def _finish_at_once(self, connection: Connection, number: int) -> None:
        worker = number % self._workers
        await self._take(connection, worker)
        await self._finish(connection, worker)

    async def _cycle(self, connection: Connection, worker: int) -> None:
        task = self._busy.get(worker)
        if task is not None:
            step = {"name": _name(worker), "context_usage": 0.5, "current_step": f"Tests of {task}"}
            await _post(connection, "/bus/heartbeat", step)
            await self._finish(connection, worker)
        await self._take(connection, worker)

    async def _take(self, connection: Connection, worker: int) -> None:
        answer = await _post(connection, "/bus/poll_task", {"name": _name(worker), "timeout_ms": 0})
        if answer.get("task") is not None:
            self._busy[worker] = task = answer["task"]["bead_id"]
            await _post(connection, "/bus/ack_task", {"name": _name(worker), "bead_id": task})

    async def _finish(self, connection: Connection, worker: int) -> None:
        task = self._busy.pop(worker, None)
        if task is not None:
            await _post(connection, "/bus/worker_done", {"bead_id": task})


async def _post(connection: Connection, path: str, body: dict[str, object]) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(
        await connection.post(path, json.dumps({"swarm_id": SWARM, **body}))
    )
    assert "error" not in answer, (path, body, answer)
    return answer


def _name(worker: int) -> str:
    return f"agent-{worker:04}"


def _run(work: Coroutine[None, None, None]) -> None:
    """In a thread of its own: Playwright has a loop in the main one."""
    with ThreadPoolExecutor(1) as thread:
        thread.submit(_run_loop, work).result()


def _run_loop(work: Coroutine[None, None, None]) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(work)
