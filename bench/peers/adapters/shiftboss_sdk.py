"""Shiftboss through its own library: `BusProducer` and `BusWorker`."""

from __future__ import annotations

import asyncio

from bench.peers.adapters.shiftboss_http import server
from bench.peers.producer import Enqueue, OneByOneAsync
from bench.peers.records import Kind, record
from shiftboss import BusProducer, BusWorker


def producer(number: int) -> OneByOneAsync:
    async def connect() -> Enqueue:
        producer = BusProducer(server=server(number))
        return lambda job: producer.submit(f"job-{job}")

    return OneByOneAsync(connect)


def work(number: int) -> None:
    asyncio.run(_work(number))


async def _work(number: int) -> None:
    async with BusWorker(f"w-{number}", server=server(number)) as worker:
        record(Kind.READY)
        async for task in worker.tasks():
            job = int(task.bead_id.removeprefix("job-"))
            record(Kind.TAKEN, job)
            await task.done()
            record(Kind.DONE, job)
