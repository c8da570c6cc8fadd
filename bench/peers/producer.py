"""A producer process: `python -m bench.peers.producer ADAPTER NUMBER`.

It obeys lines on its standard input, `FIRST STOP`: enqueue the jobs with these numbers, one by one.
The first producer, number 0, prepares what all need before.
"""

from __future__ import annotations

import asyncio
import importlib
import sys
from collections.abc import Awaitable, Callable
from typing import Protocol

from bench.peers.records import Kind, record

Enqueue = Callable[[int], Awaitable[object]]
Connect = Callable[[], Awaitable[Enqueue]]


class Producer(Protocol):
    def send(self, jobs: range) -> None: ...


class OneByOne:
    """Each job is enqueued when the one before has been stored."""

    def __init__(self, enqueue: Callable[[int], object]) -> None:
        self._enqueue = enqueue

    def send(self, jobs: range) -> None:
        for job in jobs:
            record(Kind.SENT, job)
            self._enqueue(job)


class OneByOneAsync:
    """The same for a library of coroutines: one loop, which connects first."""

    def __init__(self, connect: Connect) -> None:
        self._runner = asyncio.Runner()
        self._enqueue = self._runner.run(_awaited(connect))

    def send(self, jobs: range) -> None:
        self._runner.run(self._send(jobs))

    async def _send(self, jobs: range) -> None:
        for job in jobs:
            record(Kind.SENT, job)
            await self._enqueue(job)


async def _awaited(connect: Connect) -> Enqueue:
    return await connect()


def main() -> None:
    adapter = importlib.import_module(f"bench.peers.adapters.{sys.argv[1]}")
    number = int(sys.argv[2])
    if number == 0 and hasattr(adapter, "prepare"):
        adapter.prepare()
    producer: Producer = adapter.producer(number)
    record(Kind.READY)
    for line in sys.stdin:
        first, stop = line.split()
        producer.send(range(int(first), int(stop)))


if __name__ == "__main__":
    main()
