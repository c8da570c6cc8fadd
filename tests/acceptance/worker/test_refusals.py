"""Errors that are not about the report itself: the report is kept."""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path

import pytest

from shiftboss.client.backoff import CALL_SECONDS_MAX
from shiftboss.errors import Forbidden, ShiftbossError, Unauthorized, UnknownPath, UnknownSwarm
from shiftboss.protocol.problems import problem_of
from tests.acceptance.swarms.packets import SWARM, kinds
from tests.acceptance.swarms.packets import worker as worker_view
from tests.acceptance.worker.fake_server import Received, Reply, running_fake_server
from tests.acceptance.worker.workers import (
    all_delivered,
    checkpoint_file,
    outbox_folder,
    waiting,
    worker_at,
)
from tests.client import Client
from tests.running import RunningServer
from tests.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("SW-04")]

YES = {"registered": True, "acknowledged": True}
QUEUED = {"acknowledged": False, "queued": True, "packet_id": 1}

NOT_OURS: list[tuple[int, object]] = [
    (200, {}),
    (200, {"acknowledged": False, "registered": False}),
    (200, b"<html>welcome</html>"),
    (200, b"[" * 100_000),
    (302, {}),
    (404, b"nope"),
    (401, {"code": "please-sign-in"}),
    (409, {}),
    (418, {"code": "teapot"}),
]
NOT_ABOUT_THE_REPORT = [
    Unauthorized("this server needs a token"),
    Forbidden("not from there"),
    UnknownSwarm(SWARM),
    UnknownPath("no such path"),
]


def problem(error: ShiftbossError) -> Reply:
    return Reply(error.status, problem_of(error))


def tasks(received: list[Received]) -> list[str]:
    return [one.body.get("task_id", "") for one in received]


@pytest.mark.parametrize(("status", "body"), NOT_OURS, ids=lambda one: str(one)[:20])
async def test_a_reply_that_is_not_from_a_shiftboss_server_keeps_the_report(
    status: int, body: object, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    well = threading.Event()
    caplog.set_level(logging.WARNING)

    def answer(received: Received) -> Reply:
        return Reply(200, YES) if well.is_set() else Reply(status, body)

    with running_fake_server(answer) as fake_server:
        async with worker_at(fake_server.url, tmp_path) as worker:
            assert await worker.register() == QUEUED
            assert len(waiting(tmp_path)) == 1
            await eventually(lambda: len(fake_server.received) > 2, "it was tried again")
            assert caplog.text.count(str(outbox_folder(tmp_path))) == 1
            assert fake_server.url in caplog.text
            well.set()
            await eventually(lambda: all_delivered(tmp_path), "the report is delivered")
        assert len({received.key for received in fake_server.received}) == 1
    assert not (outbox_folder(tmp_path) / "rejected").exists()


@pytest.mark.parametrize("error", NOT_ABOUT_THE_REPORT, ids=lambda error: error.code)
async def test_a_refusal_unrelated_to_the_report_raises_and_leaves_no_trace(
    error: ShiftbossError, tmp_path: Path
) -> None:
    with running_fake_server(lambda _: problem(error)) as fake_server:
        async with worker_at(fake_server.url, tmp_path) as worker:
            with pytest.raises(type(error), match=error.detail):
                await worker.report_progress("task-1", "One", "completed")
            assert worker.tasks_completed == 0
        assert len(fake_server.received) == 1
    assert not checkpoint_file(tmp_path).exists()
    assert waiting(tmp_path) == []


@pytest.mark.parametrize("error", NOT_ABOUT_THE_REPORT, ids=lambda error: error.code)
async def test_reports_wait_until_an_unrelated_refusal_is_resolved(
    error: ShiftbossError, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    reply = Reply(503)

    def answer(received: Received) -> Reply:
        return reply

    with running_fake_server(answer) as fake_server:
        async with worker_at(fake_server.url, tmp_path) as worker:
            for number in (1, 2, 3):
                await worker.report_progress(f"task-{number}", "A task", "completed")
            reply = problem(error)
            await eventually(lambda: error.detail in caplog.text, "it is told of", seconds=20)
            tried = len(fake_server.received)
            await eventually(lambda: len(fake_server.received) > tried, "tried again", seconds=20)
            assert caplog.text.count(error.detail) == 1
            assert [entry["body"]["task_id"] for entry in waiting(tmp_path)] == [
                "task-1",
                "task-2",
                "task-3",
            ]
            reply = Reply(200, YES)
            del fake_server.received[:]
            await eventually(lambda: all_delivered(tmp_path), "they are delivered", seconds=20)
        assert tasks(fake_server.received)[-3:] == ["task-1", "task-2", "task-3"]
    assert not (outbox_folder(tmp_path) / "rejected").exists()


async def test_a_caller_gets_the_error_that_blocks_earlier_reports(
    sqlite_path: str, tmp_path: Path
) -> None:
    """A new process with a wrong token, while reports of the previous one are queued."""
    running = RunningServer(sqlite_path, token="secret").start()
    client = Client(running.url, "secret")
    try:
        client.create_swarm(swarm_id=SWARM)
        running.kill()
        async with worker_at(running.url, tmp_path, token="secret") as worker:
            await worker.register()
            await worker.report_progress("task-1", "One", "completed")
        running.start()
        async with worker_at(running.url, tmp_path, token="wrong") as worker:
            worker.tasks_completed = 1
            for _ in range(2):
                with pytest.raises(Unauthorized):
                    await worker.report_progress("task-2", "Two", "completed")
                assert worker.tasks_completed == 1
        assert len(waiting(tmp_path)) == 2
        async with worker_at(running.url, tmp_path, token="secret") as worker:
            worker.tasks_completed = 1
            await worker.report_progress("task-2", "Two", "completed")
        assert worker_view(client)["tasks_completed"] == 2
        assert kinds(client)[1:] == ["worker_registered", "progress_update", "progress_update"]
    finally:
        client.close()
        running.close()


async def test_reports_to_a_missing_swarm_do_not_block_those_to_another(
    server: RunningServer, client: Client, tmp_path: Path
) -> None:
    server.kill()
    async with worker_at(server.url, tmp_path, swarm_id="swarm-later") as worker:
        assert await worker.register() == QUEUED
    server.start()
    client.create_swarm(swarm_id=SWARM)
    async with worker_at(server.url, tmp_path) as worker:
        assert (await worker.register())["registered"] is True
        assert (await worker.report_progress("task-1", "One", "completed"))["acknowledged"] is True
        assert [entry["swarm_id"] for entry in waiting(tmp_path)] == ["swarm-later"]
        client.create_swarm(swarm_id="swarm-later")
        await eventually(lambda: all_delivered(tmp_path), "it is delivered", seconds=20)
    assert client.status("swarm-later")["workers_registered"] == 1


async def test_the_next_call_names_the_folder_of_permanently_refused_reports(
    server: RunningServer, client: Client, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    client.create_swarm(swarm_id=SWARM)
    async with worker_at(server.url, tmp_path) as worker:
        await worker.register()
        await worker.report_progress("task-1", "One", "completed")
        server.kill()
        worker.tasks_completed = 0
        await worker.report_progress("task-x", "Counts down", "started")
        server.start()
        await eventually(lambda: all_delivered(tmp_path), "the outbox is empty", seconds=30)
    caplog.set_level(logging.WARNING)
    caplog.clear()
    async with worker_at(server.url, tmp_path) as worker:
        worker.tasks_completed = 1
        await worker.report_progress("task-2", "Two", "started")
        await worker.report_progress("task-2", "Two", "completed")
    assert caplog.text.count(str(outbox_folder(tmp_path) / "rejected")) == 1


async def test_a_slow_server_with_many_queued_reports_does_not_block_the_caller(
    tmp_path: Path,
) -> None:
    """Each answer takes no longer than one request; all of them would take much longer."""
    slow, go_on = threading.Event(), threading.Event()

    def answer(received: Received) -> Reply:
        if not slow.is_set():
            return Reply(503)
        go_on.wait(CALL_SECONDS_MAX * 0.6)
        return Reply(200, YES)

    with running_fake_server(answer) as fake_server:
        async with worker_at(fake_server.url, tmp_path) as worker:
            for number in range(10):
                await worker.report_progress(f"task-{number}", "A task", "started")
        slow.set()
        async with worker_at(fake_server.url, tmp_path) as worker:
            started = time.monotonic()
            assert await worker.register() == QUEUED
            assert time.monotonic() - started < 4 * CALL_SECONDS_MAX
        go_on.set()
    assert waiting(tmp_path)[-1]["operation"] == "register"


@pytest.mark.parametrize("silent_about", ["register", "status"])
async def test_a_silent_server_does_not_block_a_resume(silent_about: str, tmp_path: Path) -> None:
    def answer(received: Received) -> Reply | None:
        return None if received.path.endswith(silent_about) else Reply(200, YES)

    with running_fake_server(answer) as fake_server:
        async with worker_at(fake_server.url, tmp_path) as worker:
            started = time.monotonic()
            resumed = await worker.resume()
            assert time.monotonic() - started < 4 * CALL_SECONDS_MAX
            assert worker.tasks_completed == 0
        assert fake_server.received[-1].path == f"/swarm/{SWARM}/{silent_about}"
    assert resumed == (QUEUED if silent_about == "register" else YES)
