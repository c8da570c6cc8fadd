"""Load on the bus: workers that poll, acknowledge and report done, and clients that submit.

`python -m bench.bus_load cycle|combined|echo URL WORKERS TASKS` prints one JSON line. `combined`
does the same with two requests per task. `echo` sends four of them to an echo server, over as many
connections.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any, NamedTuple, cast
from urllib.parse import urlsplit

import uvloop


class BusResult(NamedTuple):
    requests_per_second: float
    cycles_per_second: float
    dispatch_p50_ms: float
    dispatch_p99_ms: float


class Connection(asyncio.Protocol):
    """One connection. `post` sends a request and returns the future of its response."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._buffer = b""
        self._answer: asyncio.Future[bytes] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, separator, body = self._buffer.partition(b"\r\n\r\n")
        if not separator:
            return
        length = int(head.lower().split(b"content-length:", 1)[1].split(b"\r\n", 1)[0])
        if len(body) >= length and self._answer is not None:
            answer, self._answer, self._buffer = self._answer, None, b""
            if not answer.done():
                answer.set_result(body)

    def close(self) -> None:
        self._transport.close()

    def post(self, path: str, body: str) -> asyncio.Future[bytes]:
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(
            f"POST {path} HTTP/1.1\r\nHost: {self._host}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n{body}".encode()
        )
        return self._answer

    def get(self, path: str) -> asyncio.Future[bytes]:
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(f"GET {path} HTTP/1.1\r\nHost: {self._host}\r\n\r\n".encode())
        return self._answer


async def connect(url: str) -> Connection:
    address = urlsplit(url)
    _, connection = await asyncio.get_running_loop().create_connection(
        lambda: Connection(address.netloc), address.hostname or "", address.port or 0
    )
    return connection


class Run:
    """One run against one server. The submitter keeps as many tasks open as there are workers."""

    def __init__(self, url: str, workers: int, tasks: int) -> None:
        self._url = url
        self._workers = workers
        self._tasks = tasks
        self._free = asyncio.Semaphore(0)
        self._submitted_at: dict[str, float] = {}
        self._done = 0
        self._all_done = asyncio.Event()
        self.dispatch: list[float] = []

    async def cycle(self) -> BusResult:
        workers = [asyncio.create_task(self._work(number)) for number in range(self._workers)]
        submitters = [await connect(self._url) for _ in range(min(self._workers, 16))]
        numbers = iter(range(self._tasks))
        started_at = time.perf_counter()
        await asyncio.gather(*(self._submit(connection, numbers) for connection in submitters))
        await self._all_done.wait()
        seconds = time.perf_counter() - started_at
        for worker in workers:
            worker.cancel()
        self.dispatch.sort()
        return BusResult(
            requests_per_second=4 * self._tasks / seconds,
            cycles_per_second=self._tasks / seconds,
            dispatch_p50_ms=self.dispatch[len(self.dispatch) // 2] * 1000,
            dispatch_p99_ms=self.dispatch[int(len(self.dispatch) * 0.99)] * 1000,
        )

    async def _submit(self, connection: Connection, numbers: Any) -> None:
        for number in numbers:
            await self._free.acquire()
            task_id = f"t-{number}"
            self._submitted_at[task_id] = time.perf_counter()
            await connection.post("/bus/submit_task", f'{{"bead_id":"{task_id}"}}')

    async def _work(self, number: int) -> None:
        connection = await connect(self._url)
        name = f"w-{number}"
        while True:
            answer = connection.post("/bus/poll_task", f'{{"name":"{name}","timeout_ms":30000}}')
            self._free.release()
            task_id = json.loads(await answer)["task"]["bead_id"]
            self.dispatch.append(time.perf_counter() - self._submitted_at[task_id])
            await connection.post("/bus/ack_task", f'{{"name":"{name}","bead_id":"{task_id}"}}')
            await connection.post("/bus/worker_done", f'{{"bead_id":"{task_id}"}}')
            self._done += 1
            if self._done == self._tasks:
                self._all_done.set()


class CombinedRun(Run):
    """Tasks are added and submitted at once; a report brings the next task, acknowledged."""

    async def _submit(self, connection: Connection, numbers: Any) -> None:
        for number in numbers:
            await self._free.acquire()
            task_id = f"t-{number}"
            self._submitted_at[task_id] = time.perf_counter()
            body = f'{{"bead_id":"{task_id}","title":"Task","submit":true}}'
            await connection.post("/bus/add_task", body)

    async def _work(self, number: int) -> None:
        connection = await connect(self._url)
        poll = f'"name":"w-{number}","timeout_ms":30000,"ack":true'
        answer = connection.post("/bus/poll_task", f"{{{poll}}}")
        self._free.release()
        task_id = json.loads(await answer)["task"]["bead_id"]
        while True:
            self.dispatch.append(time.perf_counter() - self._submitted_at[task_id])
            # The last tasks go to one worker each.
            if len(self.dispatch) > self._tasks - self._workers:
                break
            body = f'{{"bead_id":"{task_id}","poll":true,{poll}}}'
            answer = connection.post("/bus/worker_done", body)
            self._done += 1
            self._free.release()
            task_id = json.loads(await answer)["next"]["task"]["bead_id"]
        await connection.post("/bus/worker_done", f'{{"bead_id":"{task_id}"}}')
        self._done += 1
        if self._done == self._tasks:
            self._all_done.set()


async def echo(url: str, connections: int, requests: int) -> BusResult:
    """The same number of requests to the echo server, over as many connections."""
    latencies: list[float] = []

    async def send_all(connection: Connection) -> None:
        for _ in range(requests // connections):
            sent_at = time.perf_counter()
            await connection.post(
                "/swarm/s/progress", '{"name":"w-1","bead_id":"t-12345","timeout_ms":30000}'
            )
            latencies.append(time.perf_counter() - sent_at)

    opened = [await connect(url) for _ in range(connections)]
    started_at = time.perf_counter()
    await asyncio.gather(*(send_all(connection) for connection in opened))
    seconds = time.perf_counter() - started_at
    latencies.sort()
    return BusResult(
        requests_per_second=len(latencies) / seconds,
        cycles_per_second=len(latencies) / seconds / 4,
        dispatch_p50_ms=latencies[len(latencies) // 2] * 1000,
        dispatch_p99_ms=latencies[int(len(latencies) * 0.99)] * 1000,
    )


async def prepare(url: str, workers: int, tasks: int) -> None:
    connection = await connect(url)
    for number in range(workers):
        await connection.post("/bus/register_worker", f'{{"name":"w-{number}"}}')
    for number in range(tasks):
        await connection.post("/bus/add_task", f'{{"bead_id":"t-{number}","title":"Task"}}')


async def run(kind: str, url: str, workers: int, tasks: int) -> BusResult:
    if kind == "echo":
        return await echo(url, workers, 4 * tasks)
    if kind == "combined":
        await prepare(url, workers, 0)
        return await CombinedRun(url, workers, tasks).cycle()
    await prepare(url, workers, tasks)
    return await Run(url, workers, tasks).cycle()


def main() -> None:
    kind, url, workers, tasks = sys.argv[1:]
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        print(json.dumps(runner.run(run(kind, url, int(workers), int(tasks)))._asdict()))


if __name__ == "__main__":
    main()
