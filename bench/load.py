"""Load: progress reports over many connections, each of which waits for its response.

`python -m bench.load URL SWARM CONNECTIONS REPORTS START` prints one JSON line. It uses
plain sockets, so that it costs little compared with the server it measures.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Iterator
from typing import NamedTuple, cast
from urllib.parse import urlsplit

import uvloop

TASKS = 1000


class Load(NamedTuple):
    url: str
    swarm_id: str
    connections: int
    reports: int
    start: int  # number of the first report, so that a second run repeats no key


class Result(NamedTuple):
    per_second: float
    p50_ms: float
    p99_ms: float
    max_ms: float


class Connection(asyncio.Protocol):
    """One worker, which sends its next report when the previous one was answered."""

    def __init__(self, requests: Iterator[bytes], latencies: list[float]) -> None:
        self._requests = requests
        self._latencies = latencies
        self._answer = b""
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._send_next()

    def data_received(self, data: bytes) -> None:
        self._answer += data
        head, separator, body = self._answer.partition(b"\r\n\r\n")
        if not separator or len(body) < _content_length(head):
            return
        if not head.startswith(b"HTTP/1.1 200"):
            self.done.set_exception(RuntimeError(self._answer.decode()))
            return
        self._latencies.append(time.perf_counter() - self._sent_at)
        self._answer = b""
        self._send_next()

    def _send_next(self) -> None:
        request = next(self._requests, None)
        if request is None:
            self._transport.close()
            self.done.set_result(None)
            return
        self._sent_at = time.perf_counter()
        self._transport.write(request)


def _content_length(head: bytes) -> int:
    return int(head.lower().split(b"content-length:", 1)[1].split(b"\r\n", 1)[0])


def _requests(load: Load, packet_id: int, count: int) -> Iterator[bytes]:
    host = urlsplit(load.url).netloc
    for number in range(load.start, load.start + count):
        body = (
            f'{{"packet_id":{packet_id},"task_id":"task-{number}","task_name":'
            f'"Implement authentication","status":"completed","tasks_completed":1,'
            f'"tasks_total":{TASKS},"commit":"abc1234567"}}'
        )
        yield (
            f"POST /swarm/{load.swarm_id}/progress HTTP/1.1\r\nHost: {host}\r\n"
            f"Content-Type: application/json\r\nIdempotency-Key: {number:09}-{packet_id}\r\n"
            f"Content-Length: {len(body)}\r\n\r\n{body}"
        ).encode()


async def _run(load: Load) -> Result:
    loop = asyncio.get_running_loop()
    address = urlsplit(load.url)
    latencies: list[float] = []
    each = load.reports // load.connections
    started_at = time.perf_counter()
    connections = [
        (
            await loop.create_connection(
                lambda n=packet_id: Connection(_requests(load, n, each), latencies),  # type: ignore[misc]
                address.hostname or "",
                address.port or 0,
            )
        )[1]
        for packet_id in range(1, load.connections + 1)
    ]
    await asyncio.gather(*(connection.done for connection in connections))
    seconds = time.perf_counter() - started_at
    latencies.sort()
    return Result(
        per_second=len(latencies) / seconds,
        p50_ms=latencies[len(latencies) // 2] * 1000,
        p99_ms=latencies[int(len(latencies) * 0.99)] * 1000,
        max_ms=latencies[-1] * 1000,
    )


def main() -> None:
    url, swarm_id, connections, reports, start = sys.argv[1:]
    load = Load(url, swarm_id, int(connections), int(reports), int(start))
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        print(json.dumps(runner.run(_run(load))._asdict()))


if __name__ == "__main__":
    main()
