"""Ten thousand parked polls and a thousand event streams in one server process: its memory, and
dispatch meanwhile. Every stream gets every event of the swarm."""

from __future__ import annotations

import asyncio
import json
import resource
import time
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

import uvloop

from bench.bus_load import Connection, connect
from bench.figures import Figure
from bench.running import Server, shiftboss

POLLS = 10_000
STREAMS = 1_000
TASKS = 1000
# Connections that are opened at the same time.
ARRIVING = 200
OPENING_SECONDS = 120.0


class Stream(asyncio.Protocol):
    """Reads the events of the default swarm, and counts what it gets."""

    def __init__(self, host: str, since: int, opened: asyncio.Semaphore) -> None:
        self._head = f"GET /swarm/default/events?since_event_id={since} HTTP/1.1\r\nHost: {host}"
        self._opened = opened
        self._tail = b""
        self.is_open = False
        self.events = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast(asyncio.Transport, transport).write(f"{self._head}\r\n\r\n".encode())

    def data_received(self, data: bytes) -> None:
        if not self.is_open:
            self.is_open = True
            self._opened.release()
        # The mark of an event may be cut in two.
        self.events += (self._tail + data).count(b"\nid: ")
        self._tail = data[-4:]


def run(folder: Path, polls: int = POLLS, streams: int = STREAMS) -> list[Figure]:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with (
        shiftboss(folder / "parked.db") as server,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        before = server.memory_megabytes()
        memory, delays, silent = runner.run(_measure(server, polls, streams))
    delays.sort()
    crowd = f"{polls:,} parked polls and {streams:,} event streams"
    return [
        Figure(f"server memory with {crowd}", memory, "MB", at_most=300),
        Figure("memory per parked poll", (memory - before) * 1000 / polls, "kB"),
        Figure("dispatch p50 among them", delays[len(delays) // 2] * 1000, "ms"),
        Figure("dispatch p99 among them", delays[int(len(delays) * 0.99)] * 1000, "ms", at_most=20),
        Figure("event streams that got nothing", silent, "", at_most=0),
    ]


async def _measure(server: Server, polls: int, streams: int) -> tuple[float, list[float], int]:
    submitter = await connect(server.url)
    for number in range(TASKS):
        await submitter.post("/bus/add_task", f'{{"bead_id":"t-{number}","title":"Task"}}')
    arrivals = asyncio.Semaphore(ARRIVING)
    arrived: dict[str, float] = {}
    delivered: dict[str, asyncio.Future[float]] = {}
    crew = [
        asyncio.create_task(_park(server.url, f"w-{number}", arrivals, delivered))
        for number in range(polls)
    ]
    await _all_parked(submitter, polls)
    # What comes from now on: tasks were added, and workers have joined.
    readers = await _open_streams(server.url, streams, since=TASKS + polls)
    before = [reader.events for reader in readers]
    memory = server.memory_megabytes()
    submitted: dict[str, float] = {}
    # One after the other: each goes to another worker, while the streams get the one before.
    for number in range(TASKS):
        task = f"t-{number}"
        delivered[task] = asyncio.get_running_loop().create_future()
        submitted[task] = time.perf_counter()
        await submitter.post("/bus/submit_task", f'{{"bead_id":"{task}"}}')
        arrived[task] = await delivered[task]
    for worker in crew:
        worker.cancel()
    # Also what the streams took while they had much to send.
    memory = max(memory, server.memory_megabytes())
    heard = [reader.events - count for reader, count in zip(readers, before, strict=True)]
    return memory, [arrived[task] - submitted[task] for task in submitted], heard.count(0)


async def _open_streams(url: str, count: int, since: int) -> list[Stream]:
    address = urlsplit(url)
    loop = asyncio.get_running_loop()
    opened = asyncio.Semaphore(0)
    readers = []
    for _ in range(count):
        _, reader = await loop.create_connection(
            lambda: Stream(address.netloc, since, opened), address.hostname or "", address.port or 0
        )
        readers.append(reader)
    async with asyncio.timeout(OPENING_SECONDS):
        for _ in range(count):
            await opened.acquire()
    return readers


async def _park(
    url: str, name: str, arrivals: asyncio.Semaphore, delivered: dict[str, asyncio.Future[float]]
) -> None:
    async with arrivals:
        connection = await connect(url)
        await connection.post("/bus/register_worker", f'{{"name":"{name}"}}')
        answer = connection.post("/bus/poll_task", f'{{"name":"{name}","timeout_ms":600000}}')
    task = json.loads(await answer)["task"]
    delivered[task["bead_id"]].set_result(time.perf_counter())


async def _all_parked(connection: Connection, polls: int) -> None:
    """The server itself says how many polls are parked."""
    async with asyncio.timeout(300):
        while True:
            status = json.loads(await connection.post("/bus/get_status", "{}"))
            parked = sum(worker["status"] == "polling" for worker in status["workers"])
            if parked == polls:
                return
            await asyncio.sleep(1)
