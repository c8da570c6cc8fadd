"""Reports while the server is down: kept, and delivered in order and once."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from pathlib import Path

import pytest

from shiftboss.client.backoff import CALL_SECONDS_MAX
from shiftboss.errors import CounterRegression, UnknownPacket, UnknownSwarm
from tests.acceptance.swarms.packets import SWARM, accepted, progress_body, register_body
from tests.acceptance.swarms.packets import worker as worker_view
from tests.acceptance.worker.fake_server import Received, Reply, running_fake_server
from tests.acceptance.worker.workers import (
    ScriptProcess,
    all_delivered,
    checkpoint,
    checkpoint_file,
    outbox_folder,
    run_script,
    waiting,
    worker_at,
)
from tests.client import Client
from tests.running import RunningServer
from tests.waiting import eventually, wait_until

pytestmark = pytest.mark.anyio

# Our answer to any report, as far as a worker reads it.
YES = {"registered": True, "acknowledged": True}
QUEUED = {"acknowledged": False, "queued": True, "packet_id": 1}


def reported_tasks(client: Client) -> list[str]:
    return [
        event.data["task_id"]
        for event in client.stored_events(SWARM)
        if event.kind == "progress_update"
    ]


@pytest.mark.requirement("SW-04")
async def test_reports_made_while_the_server_is_down_arrive_later_in_order(
    server: RunningServer, client: Client, tmp_path: Path
) -> None:
    client.create_swarm(swarm_id=SWARM)
    async with worker_at(server.url, tmp_path) as worker:
        await worker.register()
        server.kill()
        started = time.monotonic()
        answers = [
            await worker.report_progress(f"task-{number}", "A task", "completed")
            for number in range(1, 9)
        ]
        assert time.monotonic() - started < 5 * CALL_SECONDS_MAX
        assert answers == [QUEUED] * 8
        assert checkpoint(tmp_path)["tasks_completed"] == 8
        assert [entry["body"]["tasks_completed"] for entry in waiting(tmp_path)] == [*range(1, 9)]
        server.start()
        await eventually(lambda: all_delivered(tmp_path), "the outbox is empty", seconds=30)
    assert reported_tasks(client) == [f"task-{number}" for number in range(1, 9)]
    assert worker_view(client)["tasks_completed"] == 8


@pytest.mark.requirement("SW-04", "SW-07")
async def test_the_next_worker_first_delivers_the_reports_of_a_killed_one(
    server: RunningServer, client: Client, tmp_path: Path
) -> None:
    client.create_swarm(swarm_id=SWARM)
    accepted(client, "register", register_body(worktree=str(tmp_path)))
    server.kill()
    first = ScriptProcess(
        f"""
import asyncio
from spellbook.coordination import SwarmWorker

async def main():
    worker = SwarmWorker("{SWARM}", 1, "backend-api", "{tmp_path}", 10)
    await worker.register()
    for number in (1, 2, 3):
        await worker.report_progress(f"task-{{number}}", "A task", "completed")
    print("reported", flush=True)
    input()

asyncio.run(main())
""",
        server.url,
    )
    assert first.next_line() == "reported"
    first.kill()
    assert len(waiting(tmp_path)) == 4
    server.start()
    async with worker_at(server.url, tmp_path) as second:
        second.tasks_completed = checkpoint(tmp_path)["tasks_completed"]
        answer = await second.report_progress("task-4", "A task", "completed")
    assert answer["tasks_completed"] == 4
    assert waiting(tmp_path) == []
    assert reported_tasks(client) == ["task-1", "task-2", "task-3", "task-4"]


@pytest.mark.requirement("SW-04", "SW-07")
async def test_a_report_whose_reply_was_lost_counts_once(
    server: RunningServer, client: Client, tmp_path: Path
) -> None:
    """A file that reappears, as after a power cut, has its key, so the server recognises it."""
    client.create_swarm(swarm_id=SWARM)
    async with worker_at(server.url, tmp_path) as worker:
        await worker.register()
        server.kill()
        await worker.report_error("task-1", "test_flake", "again", True)
        (file,) = outbox_folder(tmp_path).glob("*.json")
        content = file.read_bytes()
        server.start()
        await eventually(lambda: not file.exists(), "the report is delivered", seconds=30)
        file.write_bytes(content)
        await worker.register()
        await eventually(lambda: all_delivered(tmp_path), "the outbox is empty", seconds=30)
    errors = [event for event in client.stored_events(SWARM) if event.kind == "worker_error"]
    assert len(errors) == 1


@pytest.mark.requirement("SW-04")
@pytest.mark.parametrize("status", [500, 502, 503, 408, 425, 429])
async def test_a_report_is_kept_and_sent_again_when_the_server_asks_to_retry_later(
    status: int, tmp_path: Path
) -> None:
    well = threading.Event()

    def answer(received: Received) -> Reply:
        return Reply(200, YES) if well.is_set() else Reply(status)

    with running_fake_server(answer) as fake_server:
        async with worker_at(fake_server.url, tmp_path) as worker:
            assert await worker.register() == QUEUED
            well.set()
            await eventually(lambda: all_delivered(tmp_path), "the report is delivered")
        keys = {received.key for received in fake_server.received}
        assert len(fake_server.received) >= 2
        assert len(keys) == 1


@pytest.mark.requirement("SW-04")
async def test_a_silent_server_delays_no_call_while_another_report_is_queued(
    tmp_path: Path,
) -> None:
    silent = threading.Event()

    def answer(received: Received) -> Reply | None:
        return None if silent.is_set() else Reply(503)

    with running_fake_server(answer) as fake_server:
        async with worker_at(fake_server.url, tmp_path) as worker:
            assert await worker.register() == QUEUED
            silent.set()
            await eventually(lambda: len(fake_server.received) > 1, "it is tried again")
            started = time.monotonic()
            assert await worker.report_progress("task-1", "One", "completed") == QUEUED
            assert time.monotonic() - started < CALL_SECONDS_MAX
    assert [entry["operation"] for entry in waiting(tmp_path)] == ["register", "progress"]


@pytest.mark.requirement("SW-04")
async def test_a_silent_server_times_out_without_blocking_the_event_loop(
    tmp_path: Path,
) -> None:
    with running_fake_server(lambda _: None) as fake_server:
        async with worker_at(fake_server.url, tmp_path) as worker:
            call = asyncio.create_task(worker.register())
            await eventually(lambda: fake_server.received, "the request is there")
            assert not call.done()
            assert await asyncio.wait_for(call, CALL_SECONDS_MAX + 20.0) == QUEUED
    assert len(waiting(tmp_path)) == 1


@pytest.mark.requirement("SW-04", "SW-07")
async def test_a_refused_report_raises_and_leaves_counter_and_checkpoint_unchanged(
    server: RunningServer, client: Client, tmp_path: Path
) -> None:
    client.create_swarm(swarm_id=SWARM)
    async with worker_at(server.url, tmp_path) as worker:
        await worker.register()
        accepted(client, "progress", progress_body(tasks_completed=5))
        before = checkpoint_file(tmp_path).read_bytes()
        with pytest.raises(CounterRegression) as refused:
            await worker.report_progress("task-1", "One", "completed")
        assert refused.value.facts["recorded"] == 5
        assert refused.value.field == "tasks_completed"
        assert worker.tasks_completed == 0
        assert checkpoint_file(tmp_path).read_bytes() == before
        assert waiting(tmp_path) == []
        worker.tasks_completed = 5
        answer = await worker.report_progress("task-6", "Six", "completed")
        assert answer["tasks_completed"] == 6


@pytest.mark.requirement("SW-04")
async def test_a_refused_first_report_leaves_no_checkpoint(
    server: RunningServer, client: Client, tmp_path: Path
) -> None:
    async with worker_at(server.url, tmp_path) as worker:
        with pytest.raises(UnknownSwarm):
            await worker.register()
        client.create_swarm(swarm_id=SWARM)
        with pytest.raises(UnknownPacket):
            await worker.report_complete("def5678901", True, True)
    assert not checkpoint_file(tmp_path).exists()
    assert waiting(tmp_path) == []


@pytest.mark.requirement("SW-04")
async def test_a_report_refused_in_the_background_is_set_aside_and_the_rest_delivered(
    server: RunningServer, client: Client, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    client.create_swarm(swarm_id=SWARM)
    caplog.set_level(logging.WARNING)
    async with worker_at(server.url, tmp_path) as worker:
        await worker.register()
        await worker.report_progress("task-1", "One", "completed")
        server.kill()
        worker.tasks_completed = 0
        await worker.report_progress("task-x", "Counts down", "started")
        worker.tasks_completed = 1
        await worker.report_progress("task-2", "Two", "completed")
        server.start()
        await eventually(lambda: all_delivered(tmp_path), "the outbox is empty", seconds=30)
    assert reported_tasks(client) == ["task-1", "task-2"]
    (rejected,) = (outbox_folder(tmp_path) / "rejected").iterdir()
    assert "task-x" in rejected.read_text()
    assert "tasks_completed" in caplog.text


@pytest.mark.requirement("SW-04")
async def test_reports_go_to_the_swarm_they_were_made_for(
    server: RunningServer, client: Client, tmp_path: Path
) -> None:
    client.create_swarm(swarm_id=SWARM)
    client.create_swarm(swarm_id="swarm-next")
    server.kill()
    async with worker_at(server.url, tmp_path) as worker:
        await worker.register()
    server.start()
    async with worker_at(server.url, tmp_path, swarm_id="swarm-next") as worker:
        await worker.register()
    assert client.status(SWARM)["workers_registered"] == 1
    assert client.status("swarm-next")["workers_registered"] == 1


@pytest.mark.requirement("SW-04")
async def test_a_damaged_report_does_not_hold_up_the_others(
    server: RunningServer, client: Client, tmp_path: Path
) -> None:
    client.create_swarm(swarm_id=SWARM)
    outbox_folder(tmp_path).mkdir(parents=True)
    (outbox_folder(tmp_path) / "000000000001.json").write_text('{"swarm_id":')
    async with worker_at(server.url, tmp_path) as worker:
        answer = await worker.register()
    assert answer["registered"] is True
    assert waiting(tmp_path) == []
    assert len(list((outbox_folder(tmp_path) / "rejected").iterdir())) == 1


@pytest.mark.requirement("SW-04", "SW-07")
async def test_a_report_whose_call_is_cancelled_halfway_is_completed(tmp_path: Path) -> None:
    arrived, go_on = threading.Event(), threading.Event()

    def answer(received: Received) -> Reply:
        arrived.set()
        go_on.wait(30.0)
        return Reply(200, YES | {"tasks_completed": received.body["tasks_completed"]})

    with running_fake_server(answer) as fake_server:
        async with worker_at(fake_server.url, tmp_path) as worker:
            call = asyncio.create_task(worker.report_progress("task-1", "One", "completed"))
            await eventually(arrived.is_set, "the request is there")
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            next_call = asyncio.create_task(worker.report_progress("task-2", "Two", "completed"))
            go_on.set()
            assert (await next_call)["tasks_completed"] == 2
        tasks = [received.body["task_id"] for received in fake_server.received]
    assert tasks == ["task-1", "task-2"]
    assert waiting(tmp_path) == []


@pytest.mark.requirement("SW-04")
async def test_two_workers_of_one_packet_deliver_every_report_once_and_in_order(
    server: RunningServer, client: Client, tmp_path: Path
) -> None:
    client.create_swarm(swarm_id=SWARM)
    async with (
        worker_at(server.url, tmp_path) as one,
        worker_at(server.url, tmp_path) as other,
    ):
        await one.register()
        await asyncio.gather(
            *(
                worker.report_progress(f"{name}-{number}", "A task", "started")
                for name, worker in (("one", one), ("other", other))
                for number in range(20)
            )
        )
        await eventually(lambda: all_delivered(tmp_path), "the outbox is empty")
    tasks = reported_tasks(client)
    assert sorted(tasks) == sorted(f"{n}-{i}" for n in ("one", "other") for i in range(20))
    assert [task for task in tasks if task.startswith("one")] == [f"one-{i}" for i in range(20)]


LEAVES_REPORTS = """
import asyncio
from spellbook.coordination import SwarmWorker

async def main():
    worker = SwarmWorker("{swarm}", 1, "backend-api", "{worktree}", 10, token="{token}")
    await worker.register()
    for number in (1, 2, 3):
        print(await worker.report_progress(f"task-{{number}}", "A task", "completed"))

asyncio.run(main())
"""


@pytest.mark.requirement("SW-04")
@pytest.mark.usefixtures("couriers")
def test_a_courier_delivers_the_reports_a_finished_script_left(
    server: RunningServer, client: Client, tmp_path: Path
) -> None:
    client.create_swarm(swarm_id=SWARM)
    server.kill()
    script = LEAVES_REPORTS.format(swarm=SWARM, worktree=tmp_path, token="")
    assert run_script(script, server.url).count("'queued': True") == 3
    assert len(waiting(tmp_path)) == 4
    server.start()
    wait_until(lambda: all_delivered(tmp_path), "the courier has delivered", seconds=30)
    assert reported_tasks(client) == ["task-1", "task-2", "task-3"]


@pytest.mark.requirement("SW-04")
@pytest.mark.usefixtures("couriers")
def test_the_courier_uses_the_workers_token(tmp_path: Path) -> None:
    well = threading.Event()

    def answer(received: Received) -> Reply:
        return Reply(200, YES) if well.is_set() else Reply(503)

    with running_fake_server(answer) as fake_server:
        script = LEAVES_REPORTS.format(swarm=SWARM, worktree=tmp_path, token="secret")
        run_script(script, fake_server.url)
        well.set()
        wait_until(lambda: all_delivered(tmp_path), "the courier has delivered", seconds=30)
        assert {received.authorization for received in fake_server.received} == {"Bearer secret"}


@pytest.mark.requirement("SW-04")
@pytest.mark.usefixtures("couriers")
async def test_a_closed_worker_leaves_its_reports_to_a_courier(tmp_path: Path) -> None:
    well = threading.Event()

    def answer(received: Received) -> Reply:
        return Reply(200, YES) if well.is_set() else Reply(503)

    with running_fake_server(answer) as fake_server:
        async with worker_at(fake_server.url, tmp_path) as worker:
            assert await worker.register() == QUEUED
        well.set()
        await eventually(lambda: all_delivered(tmp_path), "the courier has delivered", seconds=30)
