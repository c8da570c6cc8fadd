"""NATS JetStream with a file store: pull consumers, whose acknowledgements are confirmed.

The server has written a message to its file when it confirms it, and syncs the file every two
minutes. An acknowledgement deletes the message (work-queue retention).
"""

from __future__ import annotations

import asyncio
from typing import Final

import nats
from nats.js.api import ConsumerConfig, RetentionPolicy, StorageType

from bench.peers.adapters.place import place
from bench.peers.producer import Enqueue, OneByOneAsync
from bench.peers.records import Kind, record

_FETCH_SECONDS: Final = 30.0
_SUBJECT: Final = "jobs"
_DURABLE: Final = "workers"


def prepare() -> None:
    asyncio.run(_prepare())


async def _prepare() -> None:
    async with await nats.connect(place()) as connection:
        stream = connection.jetstream()
        await stream.add_stream(
            name="bench",
            subjects=[_SUBJECT],
            retention=RetentionPolicy.WORK_QUEUE,
            storage=StorageType.FILE,
        )
        await stream.add_consumer("bench", ConsumerConfig(durable_name=_DURABLE))


def producer(_number: int) -> OneByOneAsync:
    return OneByOneAsync(_connect)


async def _connect() -> Enqueue:
    stream = (await nats.connect(place())).jetstream()
    return lambda job: stream.publish(_SUBJECT, str(job).encode())


def work(_number: int) -> None:
    asyncio.run(_work())


async def _work() -> None:
    connection = await nats.connect(place())
    subscription = await connection.jetstream().pull_subscribe(_SUBJECT, _DURABLE, "bench")
    record(Kind.READY)
    while True:
        try:
            (message,) = await subscription.fetch(1, timeout=_FETCH_SECONDS)
        except TimeoutError:
            continue
        job = int(message.data)
        record(Kind.TAKEN, job)
        await message.ack_sync()
        record(Kind.DONE, job)
