"""The checkpoint: its content, and that it is on disk before the request is sent."""

from __future__ import annotations

import subprocess
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from shiftboss.errors import InvalidRequest
from shiftboss.worker.report_journal import WorktreeUnusable
from tests.acceptance.swarms.packets import SWARM, kinds
from tests.acceptance.worker.fake_server import Received, Reply, running_fake_server
from tests.acceptance.worker.workers import checkpoint, checkpoint_file, worker_at
from tests.client import Client
from tests.running import RunningServer

pytestmark = pytest.mark.anyio

BASE = {"packet_id": 1, "packet_name": "backend-api", "tasks_total": 10}


@pytest.fixture
def server(shared_server: RunningServer, shared_client: Client) -> RunningServer:
    """Of all tests of this module; each begins without a swarm."""
    return shared_server


@pytest.fixture
def client(shared_client: Client) -> Client:
    return shared_client


def without_time(worktree: Path) -> dict[str, Any]:
    """The checkpoint, with its timestamp checked and removed."""
    found = checkpoint(worktree)
    assert datetime.fromisoformat(found.pop("timestamp")).utcoffset() == timedelta(0)
    return found


def all_files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*"))


def git(worktree: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(worktree), *arguments], capture_output=True, text=True, check=True
    )
    return done.stdout


@pytest.mark.requirement("SW-05")
async def test_the_four_kinds_of_checkpoint_have_exactly_the_documented_fields(
    server: RunningServer, client: Client, tmp_path: Path
) -> None:
    client.create_swarm(swarm_id=SWARM, workers_expected=2)
    async with worker_at(server.url, tmp_path) as worker:
        await worker.register()
        assert without_time(tmp_path) == {"event": "registered", "tasks_completed": 0, **BASE}

        await worker.report_progress("task-1", "Implement it", "completed", "abc1234567")
        step = {"task_id": "task-1", "task_name": "Implement it", "status": "completed"}
        progress = {"event": "progress", "tasks_completed": 1, **BASE, **step}
        assert without_time(tmp_path) == progress | {"commit": "abc1234567"}

        await worker.report_error("task-2", "test_flake", "3 failures", True)
        assert without_time(tmp_path) == {
            "event": "error",
            "tasks_completed": 1,
            **BASE,
            "task_id": "task-2",
            "error_type": "test_flake",
            "message": "3 failures",
            "recoverable": True,
        }

        await worker.report_complete("def5678901", True, False)
        assert without_time(tmp_path) == {
            "event": "complete",
            "tasks_completed": 1,
            **BASE,
            "final_commit": "def5678901",
            "tests_passed": True,
            "review_passed": False,
        }


@pytest.mark.requirement("SW-04")
async def test_the_checkpoint_is_on_disk_before_the_request_arrives(tmp_path: Path) -> None:
    at_arrival: list[tuple[str, str, int]] = []

    def look(received: Received) -> Reply:
        found = checkpoint(tmp_path)
        at_arrival.append((received.path, found["event"], found["tasks_completed"]))
        return Reply(200, {"registered": True, "acknowledged": True})

    with running_fake_server(look) as fake_server:
        async with worker_at(fake_server.url, tmp_path) as worker:
            await worker.register()
            await worker.report_progress("task-1", "One", "started")
            await worker.report_progress("task-1", "One", "completed")
            await worker.report_error("task-2", "test_flake", "again", True)
            await worker.report_complete("def5678901", True, True)
    assert at_arrival == [
        (f"/swarm/{SWARM}/register", "registered", 0),
        (f"/swarm/{SWARM}/progress", "progress", 0),
        (f"/swarm/{SWARM}/progress", "progress", 1),
        (f"/swarm/{SWARM}/error", "error", 1),
        (f"/swarm/{SWARM}/complete", "complete", 1),
    ]


@pytest.mark.requirement("SW-07")
async def test_the_counter_increases_only_on_completed(
    server: RunningServer, client: Client, tmp_path: Path
) -> None:
    client.create_swarm(swarm_id=SWARM)
    async with worker_at(server.url, tmp_path) as worker:
        await worker.register()
        counts = []
        for task_id, status in [
            ("task-1", "started"),
            ("task-1", "completed"),
            ("task-2", "failed"),
            ("task-2", "completed"),
        ]:
            answer = await worker.report_progress(task_id, "A task", status)
            counts.append((answer["tasks_completed"], worker.tasks_completed))
    assert counts == [(0, 0), (1, 1), (1, 1), (2, 2)]


@pytest.mark.requirement("SW-06")
@pytest.mark.parametrize(
    ("field", "members"),
    [
        ("packet_id", {"packet_id": 0}),
        ("packet_name", {"packet_name": "../../x"}),
        ("tasks_total", {"tasks_total": 1001}),
        ("worktree", {"worktree": "relative/tree"}),
        ("worktree", {"worktree": r"C:\tree"}),
        ("worktree", {"worktree": r"\\machine\tree"}),
        ("swarm_id", {"swarm_id": "a/b"}),
    ],
)
async def test_a_worker_with_invalid_arguments_writes_and_sends_nothing(
    field: str, members: dict[str, Any], server: RunningServer, tmp_path: Path
) -> None:
    before = all_files(tmp_path)
    async with worker_at(server.url, **({"worktree": tmp_path} | members)) as worker:
        with pytest.raises(InvalidRequest) as refused:
            await worker.register()
        assert refused.value.field == field
        with pytest.raises(InvalidRequest):
            await worker.report_progress("task-1", "One", "completed")
    assert all_files(tmp_path) == before


@pytest.mark.requirement("SW-06")
async def test_an_invalid_report_is_refused_by_field_and_changes_nothing(
    server: RunningServer, client: Client, tmp_path: Path
) -> None:
    client.create_swarm(swarm_id=SWARM)
    async with worker_at(server.url, tmp_path) as worker:
        await worker.register()
        before = checkpoint_file(tmp_path).read_bytes()
        worker.tasks_completed = 10
        for field, report in [
            ("status", worker.report_progress("task-1", "One", "done")),
            ("commit", worker.report_progress("task-1", "One", "failed", "ABCDEF1")),
            ("tasks_completed", worker.report_progress("task-1", "One", "completed")),
            ("final_commit", worker.report_complete("abc12", True, True)),
            ("error_type", worker.report_error("task-1", "x" * 101, "", True)),
            ("message", worker.report_error("task-1", "test_flake", "x" * 5001, True)),
        ]:
            with pytest.raises(InvalidRequest) as refused:
                await report
            assert refused.value.field == field
        assert worker.tasks_completed == 10
        worker.tasks_completed = 11
        with pytest.raises(InvalidRequest, match="tasks_completed"):
            await worker.register()
    assert checkpoint_file(tmp_path).read_bytes() == before
    assert kinds(client) == ["swarm_created", "worker_registered"]


@pytest.mark.requirement("SW-05")
async def test_the_worktree_is_created_and_checkpoint_files_stay_out_of_commits(
    server: RunningServer, client: Client, tmp_path: Path
) -> None:
    client.create_swarm(swarm_id=SWARM)
    worktree = tmp_path / "path" / "to" / "worktree"
    async with worker_at(server.url, worktree) as worker:
        await worker.register()
    assert checkpoint_file(worktree).is_file()
    git(worktree, "init", "-q")
    git(worktree, "add", "-A")
    assert git(worktree, "status", "--porcelain") == ""


@pytest.mark.requirement("SW-04")
async def test_an_unwritable_worktree_is_a_clear_error_and_nothing_is_sent(
    server: RunningServer, client: Client, tmp_path: Path
) -> None:
    client.create_swarm(swarm_id=SWARM)
    in_the_way = tmp_path / "file"
    in_the_way.write_text("not a folder")
    async with worker_at(server.url, in_the_way / "tree") as worker:
        with pytest.raises(WorktreeUnusable, match=str(in_the_way)) as refused:
            await worker.register()
    assert refused.value.field == "worktree"
    assert kinds(client) == ["swarm_created"]
