"""Ten thousand parked polls in one server process: its memory, and dispatch while they wait."""

from __future__ import annotations

import asyncio
import json
import resource
import time
from pathlib import Path

import uvloop

from bench.bus_load import Connection, connect
from bench.figures import Figure
from bench.running import Server, shiftboss

POLLS = 10_000
TASKS = 1000
# Connections that are opened at the same time.
ARRIVING = 200


def run(folder: Path, polls: int = POLLS) -> list[Figure]:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with (
        shiftboss(folder / "parked.db") as server,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        before = server.memory_megabytes()
        memory, delays = runner.run(_measure(server, polls))
    delays.sort()
    return [
        Figure(f"server memory with {polls:,} parked polls", memory, "MB", at_most=400),
        Figure("memory per parked poll", (memory - before) * 1000 / polls, "kB"),
        Figure("dispatch p50 among them", delays[len(delays) // 2] * 1000, "ms"),
        Figure("dispatch p99 among them", delays[int(len(delays) * 0.99)] * 1000, "ms", at_most=30),
    ]


async def _measure(server: Server, polls: int) -> tuple[float, list[float]]:
    submitter = await connect(server.url)
    for number in range(TASKS):
        await submitter.post("/bus/add_task", f'{{"bead_id":"t-{number}","title":"Task"}}')
    arrivals = asyncio.Semaphore(ARRIVING)
    arrived: dict[str, float] = {}
    crew = [
        asyncio.create_task(_park(server.url, f"w-{number}", arrivals, arrived))
        for number in range(polls)
    ]
    await _all_parked(submitter, polls)
    memory = server.memory_megabytes()
    submitted: dict[str, float] = {}
    for number in range(TASKS):
        submitted[f"t-{number}"] = time.perf_counter()
        await submitter.post("/bus/submit_task", f'{{"bead_id":"t-{number}"}}')
    await asyncio.wait(crew, timeout=1)
    for worker in crew:
        worker.cancel()
    return memory, [arrived[task] - submitted[task] for task in submitted]


async def _park(
    url: str, name: str, arrivals: asyncio.Semaphore, arrived: dict[str, float]
) -> None:
    async with arrivals:
        connection = await connect(url)
        await connection.post("/bus/register_worker", f'{{"name":"{name}"}}')
        answer = connection.post("/bus/poll_task", f'{{"name":"{name}","timeout_ms":600000}}')
    task = json.loads(await answer)["task"]
    arrived[task["bead_id"]] = time.perf_counter()


async def _all_parked(connection: Connection, polls: int) -> None:
    """The server itself says how many polls are parked."""
    async with asyncio.timeout(300):
        while True:
            status = json.loads(await connection.post("/bus/get_status", "{}"))
            parked = sum(worker["status"] == "polling" for worker in status["workers"])
            if parked == polls:
                return
            await asyncio.sleep(1)
