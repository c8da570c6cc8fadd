"""kill -9 of the server in the middle of 64 concurrent writers, again and again."""

from __future__ import annotations

import asyncio
import os
import random
import signal

import pytest

from tests.chaos.packet_reporter import SWARMS, WORKERS, PacketReporter, answered
from tests.chaos.raw_client import RawClient
from tests.client import Client
from tests.running import RunningServer
from tests.waiting import eventually

pytestmark = pytest.mark.anyio

KILLS = 12
STORM_SECONDS = 150


def stored_counters(client: Client) -> dict[int, int]:
    return {
        worker["packet_id"]: worker["tasks_completed"]
        for swarm_id in SWARMS
        for worker in client.status(swarm_id)["workers"]
    }


async def wait_for_answers(workers: list[PacketReporter], count: int) -> None:
    goal = sum(answered(workers).values()) + count
    await eventually(
        lambda: sum(answered(workers).values()) >= goal, f"{count} more are answered", seconds=30
    )


async def kill_and_start(
    server: RunningServer, client: Client, workers: list[PacketReporter], up: asyncio.Event
) -> None:
    """Kill the server during reports. Everything that was answered must be stored."""
    os.kill(server.pid, signal.SIGKILL)
    up.clear()  # before anybody tries again
    await asyncio.to_thread(server.kill)
    acknowledged = answered(workers)
    await asyncio.to_thread(server.start)
    stored = await asyncio.to_thread(stored_counters, client)
    for packet_id, count in acknowledged.items():
        # One more report may have been stored although its answer was lost.
        assert stored.get(packet_id, 0) in (count, count + 1), f"packet {packet_id}"
    up.set()


def check_history(client: Client, workers: list[PacketReporter]) -> None:
    """Every report counted once, in one sequence of ids without gaps."""
    counters = stored_counters(client)
    assert counters == answered(workers)
    for swarm_id in SWARMS:
        events = client.stored_events(swarm_id)
        assert [event.event_id for event in events] == list(range(1, len(events) + 1))
        reported: dict[int, list[int]] = {}
        for event in events:
            if event.kind == "progress_update":
                reported.setdefault(event.data["packet_id"], []).append(
                    event.data["tasks_completed"]
                )
        for packet_id, counts in reported.items():
            assert counts == list(range(1, counters[packet_id] + 1)), f"packet {packet_id}"
        registered = [
            event.data["packet_id"] for event in events if event.kind == "worker_registered"
        ]
        assert sorted(registered) == sorted(
            worker.packet_id for worker in workers if worker.swarm_id == swarm_id
        )


@pytest.mark.requirement("SW-01", "SW-07", "SW-09")
async def test_every_acknowledged_report_survives_a_server_crash(
    any_server: RunningServer, any_client: Client
) -> None:
    for swarm_id in SWARMS:
        any_client.create_swarm(swarm_id=swarm_id)
    workers = [PacketReporter(number) for number in range(WORKERS)]
    up = asyncio.Event()
    up.set()
    random_source = random.Random(7432)
    async with asyncio.timeout(STORM_SECONDS), asyncio.TaskGroup() as reporting:
        for worker in workers:
            reporting.create_task(worker.run(RawClient(any_server.url, up)))
        for _ in range(KILLS):
            await wait_for_answers(workers, random_source.randint(1, 400))
            await kill_and_start(any_server, any_client, workers, up)
        for worker in workers:
            worker.finished = True
    assert sum(worker.cut_off for worker in workers) >= KILLS, "the kills interrupted no reports"
    check_history(any_client, workers)
    any_server.stop()
