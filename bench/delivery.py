"""How long after the response to a report its event reaches each of a hundred readers."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

import httpx2
import uvloop

from bench.figures import Figure
from bench.running import shiftboss

READERS = 100
REPORTS = 300
SWARM = "bench"


class Reader(asyncio.Protocol):
    """A bare event stream that notes when each report's event arrived."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._text = b""
        self.arrived: dict[bytes, float] = {}
        self.ready = asyncio.Event()
        self.complete = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        request = f"GET /swarm/{SWARM}/events HTTP/1.1\r\nHost: {self._host}\r\n\r\n"
        cast(asyncio.Transport, transport).write(request.encode())

    def data_received(self, data: bytes) -> None:
        now = time.perf_counter()
        self.ready.set()
        *events, self._text = (self._text + data).split(b"\n\n")
        for event in events:
            _, separator, task = event.partition(b'"task_id":"')
            if separator:
                self.arrived[task.split(b'"', 1)[0]] = now
        if len(self.arrived) == REPORTS:
            self.complete.set()


def run(folder: Path) -> list[Figure]:
    with (
        shiftboss(folder / "delivery.db") as server,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        server.prepare(SWARM, 1)
        delays = sorted(runner.run(_measure(server.url)))
    p99 = delays[int(len(delays) * 0.99)] * 1000
    return [
        Figure("event delivery to 100 readers, p50", delays[len(delays) // 2] * 1000, "ms"),
        Figure("event delivery to 100 readers, p99", p99, "ms", at_most=20),
    ]


async def _measure(url: str) -> list[float]:
    loop = asyncio.get_running_loop()
    address = urlsplit(url)
    readers = [
        (await loop.create_connection(lambda: Reader(address.netloc), *_host_and_port(url)))[1]
        for _ in range(READERS)
    ]
    await asyncio.gather(*(reader.ready.wait() for reader in readers))
    answered = await _report(url)
    async with asyncio.timeout(30):
        await asyncio.gather(*(reader.complete.wait() for reader in readers))
    return [reader.arrived[task] - at for reader in readers for task, at in answered.items()]


def _host_and_port(url: str) -> tuple[str, int]:
    address = urlsplit(url)
    assert address.hostname is not None
    assert address.port is not None
    return address.hostname, address.port


async def _report(url: str) -> dict[bytes, float]:
    """Send the reports; return when each was answered."""
    answered: dict[bytes, float] = {}
    async with httpx2.AsyncClient(base_url=url, trust_env=False) as client:
        for number in range(REPORTS):
            body = {
                "packet_id": 1,
                "task_id": f"t-{number}",
                "task_name": "Task",
                "status": "started",
                "tasks_completed": 0,
                "tasks_total": 1000,
            }
            (await client.post(f"/swarm/{SWARM}/progress", json=body)).raise_for_status()
            answered[f"t-{number}".encode()] = time.perf_counter()
    return answered
