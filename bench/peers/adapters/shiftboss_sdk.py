"""Shiftboss through its own library, `BusWorker`."""

from __future__ import annotations

import asyncio

from bench.peers.adapters.shiftboss_http import server
from bench.peers.producer import Enqueue, OneByOneAsync
from bench.peers.records import Kind, record
from shiftboss import BusWorker
from shiftboss.client.http_client import HttpClient, ServerRequest
from shiftboss.client.servers import Servers


def producer(number: int) -> OneByOneAsync:
    async def connect() -> Enqueue:
        client = HttpClient(Servers.at(server(number), None, None, None))

        async def enqueue(job: int) -> None:
            body = {"bead_id": f"job-{job}", "title": "A job", "submit": True}
            request = ServerRequest(path="/bus/add_task", body=body, members=("bead_id",))
            await client.send_until_answered(request)

        return enqueue

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
