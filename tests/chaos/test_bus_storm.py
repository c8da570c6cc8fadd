"""200 workers that poll, crash at random points, come back and lie about what they hold.

PostgreSQL has fewer tasks by default, for the sake of time. The full storm on both stores:
`SHIFTBOSS_STORM_TASKS=20000 pytest tests/chaos/test_bus_storm.py -n0`.
"""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import ExitStack

import pytest

from tests.acceptance.bus.bus import ask
from tests.chaos.bus_storm import Ledger, StormyWorker, submit_all
from tests.client import Client, SseEvent
from tests.running import RunningServer
from tests.waiting import eventually

pytestmark = pytest.mark.anyio

WORKERS = 200
SUBMITTERS = 8
STORM_SECONDS = 540
KILLS = 5
TASKS = {"sqlite": 20_000, "postgres": 2000}
TASKS_OVER_KILLS = {"sqlite": 3000, "postgres": 800}


async def storm(urls: list[str], ledger: Ledger) -> None:
    """Until every task is done. Workers and submitters are spread over the servers."""
    names = [f"task-{number:05}" for number in range(ledger.tasks)]
    async with asyncio.timeout(STORM_SECONDS), asyncio.TaskGroup() as group:
        for number in range(WORKERS):
            url = urls[number % len(urls)]
            group.create_task(StormyWorker(number, url, ledger).run())
        for part in range(SUBMITTERS):
            url = urls[part % len(urls)]
            group.create_task(submit_all(url, ledger, names[part::SUBMITTERS]))


async def so_many_are_done(ledger: Ledger, goal: int) -> None:
    await eventually(lambda: len(ledger.done) >= goal, f"{goal} are done", STORM_SECONDS)


async def kill_again_and_again(server: RunningServer, ledger: Ledger) -> None:
    for kill in range(1, KILLS + 1):
        await so_many_are_done(ledger, ledger.tasks * kill // (KILLS + 1))
        await asyncio.to_thread(server.kill)
        ledger.up.clear()
        await asyncio.to_thread(server.start)
        ledger.up.set()


def check_life(task: str, life: list[SseEvent]) -> None:
    """One attempt at a time, each with the next epoch; the last of them is done, once."""
    live: int | None = None
    epoch = 0
    for event in life:
        if event.kind == "task_assigned":
            assert live is None, f"{task} has two live epochs: {live}, {event.data['epoch']}"
            epoch += 1
            live = event.data["epoch"]
            assert live == epoch, task
        elif event.kind in ("task_started", "attempt_ended", "task_done"):
            assert event.data["epoch"] == live, (task, event)
            if event.kind != "task_started":
                live = None
    assert [e.kind for e in life].count("task_done") == 1, task
    assert life[-1].kind == "task_done", task


def check_history(client: Client, ledger: Ledger) -> None:
    events = client.stored_events("default")
    assert [event.event_id for event in events] == list(range(1, len(events) + 1))
    lives: dict[str, list[SseEvent]] = {}
    for event in events:
        if "bead_id" in event.data:
            lives.setdefault(event.data["bead_id"], []).append(event)
    assert sorted(lives) == sorted(ledger.done)
    for task, life in lives.items():
        check_life(task, life)


def check_rest(client: Client, tasks: int) -> None:
    """Nothing is queued, nobody holds anything, every task is done."""
    status = ask(client, "get_status")
    assert status["queued"] == 0
    assert {one["status"] for one in status["workers"]} <= {"idle", "polling"}
    found, after = 0, ""
    while True:
        page = ask(client, "list_tasks", after=after, limit=500)
        assert {(one["status"], one["state"]) for one in page["tasks"]} <= {("done", None)}
        found += len(page["tasks"])
        if page["next_after"] is None:
            break
        after = page["next_after"]
    assert found == tasks


def check_all(client: Client, ledger: Ledger) -> None:
    print(f"{ledger.crashes} crashes, {ledger.lies} lies, {ledger.late} came too late")
    assert min(ledger.crashes, ledger.lies) > ledger.tasks / 200, "only a breeze"
    check_history(client, ledger)
    check_rest(client, ledger.tasks)


def store_of(client: Client) -> str:
    store: str = client.get("/health").json()["store"]
    return store


@pytest.mark.timeout(STORM_SECONDS + 60)
@pytest.mark.requirement("BUS-08", "BUS-09", "BUS-03", "BUS-06")
async def test_every_task_of_a_storm_is_done_exactly_once(
    any_server: RunningServer, any_client: Client
) -> None:
    tasks = os.environ.get("SHIFTBOSS_STORM_TASKS", TASKS[store_of(any_client)])
    ledger = Ledger(int(tasks))
    began = time.monotonic()
    await storm([any_server.url], ledger)
    print(f"{tasks} tasks in {time.monotonic() - began:.0f} s")
    assert ledger.late > 0
    check_all(any_client, ledger)
    any_server.stop()


@pytest.mark.requirement("BUS-08", "BUS-09")
async def test_a_storm_survives_a_server_that_is_killed_again_and_again(
    any_server: RunningServer, any_client: Client
) -> None:
    ledger = Ledger(TASKS_OVER_KILLS[store_of(any_client)])
    async with asyncio.TaskGroup() as group:
        group.create_task(storm([any_server.url], ledger))
        group.create_task(kill_again_and_again(any_server, ledger))
    check_all(any_client, ledger)
    any_server.stop()


@pytest.mark.requirement("BUS-08", "BUS-09")
async def test_a_storm_over_two_servers_on_one_database(postgres_url: str) -> None:
    with ExitStack() as running:
        servers = [RunningServer(postgres_url) for _ in range(2)]
        for server in servers:
            running.callback(server.close)
            server.start()
        ledger = Ledger(TASKS_OVER_KILLS["postgres"])
        await storm([server.url for server in servers], ledger)
        client = Client(servers[1].url)
        running.callback(client.close)
        check_all(client, ledger)
