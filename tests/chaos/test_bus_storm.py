"""200 workers that poll, crash at random points, come back and report tasks they do not hold.

By default there are fewer tasks, to save time. The full test on both stores:
`SHIFTBOSS_STORM_TASKS=20000 pytest tests/chaos/test_bus_storm.py -n0`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from contextlib import ExitStack

import pytest

from tests.acceptance.bus.bus import ask
from tests.chaos.crashing_bus_workers import CrashingWorker, ExpectedResults, submit_all
from tests.client import Client, SseEvent
from tests.running import RunningServer
from tests.waiting import eventually

pytestmark = pytest.mark.anyio

WORKERS = 200
SUBMITTERS = 8
STORM_SECONDS = 540
KILLS = 5
# Each worker gets some, and crashes during one of them or another.
TASKS = {"sqlite": 2000, "postgres": 750}
TASKS_OVER_KILLS = {"sqlite": 500, "postgres": 300}


async def storm(urls: list[str], expected: ExpectedResults) -> None:
    """Run until every task is done. Workers and submitters are spread over the servers."""
    names = [f"task-{number:05}" for number in range(expected.tasks)]
    async with asyncio.timeout(STORM_SECONDS), asyncio.TaskGroup() as group:
        for number in range(WORKERS):
            url = urls[number % len(urls)]
            group.create_task(CrashingWorker(number, url, expected).run())
        for part in range(SUBMITTERS):
            url = urls[part % len(urls)]
            group.create_task(submit_all(url, expected, names[part::SUBMITTERS]))


async def wait_for_done(expected: ExpectedResults, goal: int) -> None:
    await eventually(lambda: len(expected.done) >= goal, f"{goal} are done", STORM_SECONDS)


async def kill_repeatedly(server: RunningServer, expected: ExpectedResults) -> None:
    for kill in range(1, KILLS + 1):
        await wait_for_done(expected, expected.tasks * kill // (KILLS + 1))
        os.kill(server.pid, signal.SIGKILL)
        expected.up.clear()  # before anybody tries again
        await asyncio.to_thread(server.kill)
        await asyncio.to_thread(server.start)
        expected.up.set()


def check_task(task: str, events: list[SseEvent]) -> None:
    """One attempt at a time, each with the next epoch; the last one is done, once."""
    live: int | None = None
    epoch = 0
    for event in events:
        if event.kind == "task_assigned":
            assert live is None, f"{task} has two live epochs: {live}, {event.data['epoch']}"
            epoch += 1
            live = event.data["epoch"]
            assert live == epoch, task
        elif event.kind in ("task_started", "attempt_ended", "task_done"):
            assert event.data["epoch"] == live, (task, event)
            if event.kind != "task_started":
                live = None
    assert [event.kind for event in events].count("task_done") == 1, task
    assert events[-1].kind == "task_done", task


def check_history(client: Client, expected: ExpectedResults) -> None:
    events = client.stored_events("default")
    assert [event.event_id for event in events] == list(range(1, len(events) + 1))
    by_task: dict[str, list[SseEvent]] = {}
    for event in events:
        if "bead_id" in event.data:
            by_task.setdefault(event.data["bead_id"], []).append(event)
    assert sorted(by_task) == sorted(expected.done)
    for task, task_events in by_task.items():
        check_task(task, task_events)


def check_idle(client: Client, tasks: int) -> None:
    """Nothing is queued, no worker holds a task, every task is done."""
    status = ask(client, "get_status")
    assert status["queued"] == 0
    assert {worker["status"] for worker in status["workers"]} <= {"idle", "polling"}
    count, after = 0, ""
    while True:
        page = ask(client, "list_tasks", after=after, limit=500)
        assert {(task["status"], task["state"]) for task in page["tasks"]} <= {("done", None)}
        count += len(page["tasks"])
        if page["next_after"] is None:
            break
        after = page["next_after"]
    assert count == tasks


def check_all(client: Client, expected: ExpectedResults) -> None:
    print(
        f"{expected.crashes} crashes, {expected.false_reports} false reports, "
        f"{expected.late} late reports"
    )
    assert min(expected.crashes, expected.false_reports) > expected.tasks / 200, (
        "too few crashes to prove anything"
    )
    check_history(client, expected)
    check_idle(client, expected.tasks)


def store_of(client: Client) -> str:
    store: str = client.get("/health").json()["store"]
    return store


@pytest.mark.timeout(STORM_SECONDS + 60)
@pytest.mark.requirement("BUS-08", "BUS-09", "BUS-03", "BUS-06")
async def test_every_task_is_done_exactly_once_by_crashing_workers(
    any_server: RunningServer, any_client: Client
) -> None:
    tasks = os.environ.get("SHIFTBOSS_STORM_TASKS", TASKS[store_of(any_client)])
    expected = ExpectedResults(int(tasks))
    started_at = time.monotonic()
    await storm([any_server.url], expected)
    print(f"{tasks} tasks in {time.monotonic() - started_at:.0f} s")
    assert expected.late > 0
    check_all(any_client, expected)
    any_server.stop()


@pytest.mark.requirement("BUS-08", "BUS-09")
async def test_every_task_is_done_exactly_once_with_a_server_that_is_killed_repeatedly(
    any_server: RunningServer, any_client: Client
) -> None:
    expected = ExpectedResults(TASKS_OVER_KILLS[store_of(any_client)])
    async with asyncio.TaskGroup() as group:
        group.create_task(storm([any_server.url], expected))
        group.create_task(kill_repeatedly(any_server, expected))
    check_all(any_client, expected)
    any_server.stop()


@pytest.mark.requirement("BUS-08", "BUS-09")
async def test_every_task_is_done_exactly_once_with_two_servers_on_one_database(
    postgres_url: str,
) -> None:
    with ExitStack() as running:
        servers = [RunningServer(postgres_url) for _ in range(2)]
        for server in servers:
            running.callback(server.close)
            server.start()
        expected = ExpectedResults(TASKS_OVER_KILLS["postgres"])
        await storm([server.url for server in servers], expected)
        client = Client(servers[1].url)
        running.callback(client.close)
        check_all(client, expected)
