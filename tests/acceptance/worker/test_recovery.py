"""A worker that crashed starts again and continues where it was."""

from __future__ import annotations

import json
import logging
import signal
from pathlib import Path

import pytest

from shiftboss.errors import PacketConflict
from tests.acceptance.swarms.packets import SWARM, accepted, kinds, register_body
from tests.acceptance.swarms.packets import worker as worker_view
from tests.acceptance.worker.workers import (
    ScriptProcess,
    all_delivered,
    as_script,
    checkpoint,
    checkpoint_file,
    run_script,
    waiting,
    worker_at,
)
from tests.client import Client
from tests.running import RunningServer
from tests.waiting import eventually

pytestmark = pytest.mark.anyio

CRASHES = """
from spellbook.coordination import SwarmWorker

worker = SwarmWorker("{swarm}", 1, "backend-api", "{worktree}", 10)
print(await worker.register())
await worker.report_progress("task-1", "One", "completed")
await worker.report_progress("task-2", "Two", "completed")
print("reported", flush=True)
input()
"""

# The document's recipe, with its worker written out.
RECIPE = """
import json
from pathlib import Path
from spellbook.coordination import SwarmWorker

worktree, packet_id, packet_name = "{worktree}", 1, "backend-api"

checkpoint_path = Path(worktree) / ".spellbook/checkpoints" / f"packet-{{packet_id}}-{{packet_name}}.json"
if checkpoint_path.exists():
    checkpoint = json.loads(checkpoint_path.read_text())
    tasks_completed = checkpoint["tasks_completed"]

    # Resume work
    worker = SwarmWorker("{swarm}", packet_id, packet_name, worktree, 10)
    worker.tasks_completed = tasks_completed
    print(await worker.register())  # Re-register (idempotent)
    await worker.report_progress("task-3", "Three", "completed")
"""  # noqa: E501 - the document's line


def crash(server: RunningServer, worktree: Path) -> str:
    """Kill a worker process after its second task; returns its answer to the registration."""
    script = as_script(CRASHES.format(swarm=SWARM, worktree=worktree))
    process = ScriptProcess(script, server.url)
    registered = process.next_line()
    assert process.next_line() == "reported"
    process.kill()
    return registered


@pytest.mark.requirement("SW-10")
def test_the_documented_manual_recipe_resumes_a_killed_worker(
    server: RunningServer, client: Client, tmp_path: Path
) -> None:
    client.create_swarm(swarm_id=SWARM)
    registered = crash(server, tmp_path)
    script = as_script(RECIPE.format(swarm=SWARM, worktree=tmp_path))
    assert run_script(script, server.url).strip() == registered
    assert worker_view(client)["tasks_completed"] == 3
    assert kinds(client).count("worker_registered") == 1


@pytest.mark.requirement("SW-10")
async def test_one_call_resumes_a_killed_worker(
    server: RunningServer, client: Client, tmp_path: Path
) -> None:
    client.create_swarm(swarm_id=SWARM)
    registered = crash(server, tmp_path)
    async with worker_at(server.url, tmp_path) as worker:
        assert str(await worker.resume()) == registered
        assert worker.tasks_completed == 2
        assert checkpoint(tmp_path)["event"] == "registered"
        assert checkpoint(tmp_path)["tasks_completed"] == 2
        await worker.report_progress("task-3", "Three", "completed")
    assert worker_view(client)["tasks_completed"] == 3
    assert kinds(client).count("worker_registered") == 1


DIES_WHILE_IT_REPORTS = """
import os, signal
from spellbook.coordination import SwarmWorker

worker = SwarmWorker("{swarm}", 1, "backend-api", "{worktree}", 10)
await worker.register()
fsync, calls = os.fsync, 0

def fsync_or_die(descriptor):
    nonlocal calls
    calls += 1
    if calls == {last}:
        os.kill(os.getpid(), signal.SIGKILL)
    fsync(descriptor)

os.fsync = fsync_or_die
await worker.report_progress("task-1", "One", "completed")
"""


@pytest.mark.requirement("SW-04", "SW-07", "SW-10")
@pytest.mark.parametrize("last", range(1, 6))
async def test_a_worker_that_dies_while_a_report_is_written_neither_loses_nor_repeats_it(
    last: int, server: RunningServer, client: Client, tmp_path: Path
) -> None:
    """Writing a report calls fsync five times; the process dies at each call in turn."""
    client.create_swarm(swarm_id=SWARM)
    script = DIES_WHILE_IT_REPORTS.format(swarm=SWARM, worktree=tmp_path, last=last)
    process = ScriptProcess(as_script(script), server.url)
    assert process.end() == -signal.SIGKILL
    async with worker_at(server.url, tmp_path) as worker:
        await worker.resume()
        if worker.tasks_completed == 0:
            await worker.report_progress("task-1", "One", "completed")
        await worker.report_progress("task-2", "Two", "completed")
    reported = [
        (event.data["task_id"], event.data["tasks_completed"])
        for event in client.stored_events(SWARM)
        if event.kind == "progress_update"
    ]
    assert reported == [("task-1", 1), ("task-2", 2)]
    assert waiting(tmp_path) == []


@pytest.mark.requirement("SW-10")
async def test_resuming_without_a_checkpoint_is_a_registration(
    server: RunningServer, client: Client, tmp_path: Path
) -> None:
    client.create_swarm(swarm_id=SWARM)
    async with worker_at(server.url, tmp_path) as worker:
        answer = await worker.resume()
        assert answer["registered"] is True
        assert worker.tasks_completed == 0
    assert checkpoint(tmp_path)["event"] == "registered"


@pytest.mark.requirement("SW-04", "SW-10")
async def test_a_worker_can_resume_while_the_server_is_down(
    server: RunningServer, client: Client, tmp_path: Path
) -> None:
    client.create_swarm(swarm_id=SWARM)
    crash(server, tmp_path)
    server.kill()
    async with worker_at(server.url, tmp_path) as worker:
        answer = await worker.resume()
        assert answer == {"acknowledged": False, "queued": True, "packet_id": 1}
        assert worker.tasks_completed == 2
        await worker.report_progress("task-3", "Three", "completed")
        server.start()
        await eventually(lambda: all_delivered(tmp_path), "the outbox is empty", seconds=30)
    assert worker_view(client)["tasks_completed"] == 3


@pytest.mark.requirement("SW-10")
@pytest.mark.parametrize(
    "content",
    [
        "",
        '{"event": "prog',
        "[]",
        json.dumps({"event": "progress", "packet_id": 1, "packet_name": "backend-api"}),
        json.dumps(
            {
                "event": "progress",
                "packet_id": 1,
                "packet_name": "backend-api",
                "tasks_completed": 11,
            }
        ),
        json.dumps(
            {
                "event": "progress",
                "packet_id": 2,
                "packet_name": "backend-api",
                "tasks_completed": 3,
            }
        ),
    ],
)
async def test_a_damaged_checkpoint_is_reported_and_the_worker_starts_from_0(
    content: str,
    server: RunningServer,
    client: Client,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    client.create_swarm(swarm_id=SWARM)
    checkpoint_file(tmp_path).parent.mkdir(parents=True)
    checkpoint_file(tmp_path).write_text(content)
    caplog.set_level(logging.WARNING)
    async with worker_at(server.url, tmp_path) as worker:
        answer = await worker.resume()
        assert worker.tasks_completed == 0
    assert answer["registered"] is True
    assert checkpoint(tmp_path)["tasks_completed"] == 0
    assert str(checkpoint_file(tmp_path)) in caplog.text


@pytest.mark.requirement("SW-10")
async def test_resuming_a_finished_packet_keeps_its_checkpoint(
    server: RunningServer, client: Client, tmp_path: Path
) -> None:
    client.create_swarm(swarm_id=SWARM, workers_expected=2)
    async with worker_at(server.url, tmp_path) as worker:
        await worker.register()
        await worker.report_complete("def5678901", True, True)
    before = checkpoint_file(tmp_path).read_bytes()
    async with worker_at(server.url, tmp_path) as worker:
        await worker.resume()
    assert checkpoint_file(tmp_path).read_bytes() == before
    assert worker_view(client)["status"] == "complete"


@pytest.mark.requirement("SW-10")
async def test_a_refused_resume_leaves_the_checkpoint_unchanged(
    server: RunningServer, client: Client, tmp_path: Path
) -> None:
    client.create_swarm(swarm_id="swarm-former")
    async with worker_at(server.url, tmp_path, swarm_id="swarm-former") as worker:
        await worker.register()
        await worker.report_progress("task-1", "One", "completed")
    before = checkpoint_file(tmp_path).read_bytes()
    client.create_swarm(swarm_id=SWARM)
    accepted(client, "register", register_body(worktree="/somewhere/else"))
    async with worker_at(server.url, tmp_path) as worker:
        with pytest.raises(PacketConflict) as refused:
            await worker.resume()
        assert worker.tasks_completed == 1
    assert refused.value.field == "worktree"
    assert checkpoint_file(tmp_path).read_bytes() == before
    assert waiting(tmp_path) == []
