"""resume(): the server's count of completed tasks wins over the checkpoint."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.acceptance.swarms.packets import SWARM, accepted, complete_body
from tests.acceptance.swarms.packets import worker as worker_view
from tests.acceptance.worker.fake_server import Received, Reply, running_fake_server
from tests.acceptance.worker.workers import (
    checkpoint,
    checkpoint_file,
    run_script,
    waiting,
    worker_at,
)
from tests.client import Client
from tests.running import RunningServer

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("SW-10")]

TUTORIAL = Path(__file__).parents[3] / "docs" / "tutorial.md"


async def two_tasks_done(url: str, worktree: Path, swarm_id: str = SWARM) -> None:
    async with worker_at(url, worktree, swarm_id=swarm_id) as worker:
        await worker.register()
        await worker.report_progress("task-1", "One", "completed")
        await worker.report_progress("task-2", "Two", "completed")


async def resumed(url: str, worktree: Path) -> int:
    """The counter of a resumed worker."""
    async with worker_at(url, worktree) as worker:
        answer = await worker.resume()
        assert answer["registered"] is True
        return worker.tasks_completed


async def test_a_deleted_checkpoint_is_rewritten_from_the_servers_count(
    server: RunningServer, client: Client, tmp_path: Path
) -> None:
    client.create_swarm(swarm_id=SWARM)
    await two_tasks_done(server.url, tmp_path)
    checkpoint_file(tmp_path).unlink()
    assert await resumed(server.url, tmp_path) == 2
    found = checkpoint(tmp_path)
    assert (found["event"], found["tasks_completed"]) == ("registered", 2)
    assert set(found) == {
        "event",
        "timestamp",
        "packet_id",
        "packet_name",
        "tasks_completed",
        "tasks_total",
    }


async def test_a_damaged_checkpoint_is_repaired_from_the_servers_count(
    server: RunningServer, client: Client, tmp_path: Path
) -> None:
    client.create_swarm(swarm_id=SWARM)
    await two_tasks_done(server.url, tmp_path)
    checkpoint_file(tmp_path).write_text('{"event": "prog')
    assert await resumed(server.url, tmp_path) == 2
    assert checkpoint(tmp_path)["tasks_completed"] == 2
    async with worker_at(server.url, tmp_path) as worker:
        await worker.resume()
        answer = await worker.report_progress("task-3", "Three", "completed")
    assert answer["tasks_completed"] == 3


@pytest.mark.parametrize("is_complete", [False, True])
async def test_the_checkpoint_of_another_swarm_in_the_worktree_is_ignored(
    is_complete: bool, server: RunningServer, client: Client, tmp_path: Path
) -> None:
    client.create_swarm(swarm_id="swarm-former", workers_expected=2)
    client.create_swarm(swarm_id=SWARM)
    await two_tasks_done(server.url, tmp_path, "swarm-former")
    if is_complete:
        async with worker_at(server.url, tmp_path, swarm_id="swarm-former") as worker:
            worker.tasks_completed = 2
            await worker.report_complete("def5678901", True, True)
    assert await resumed(server.url, tmp_path) == 0
    found = checkpoint(tmp_path)
    assert (found["event"], found["tasks_completed"]) == ("registered", 0)


async def test_a_failed_packet_restarts_from_0(
    server: RunningServer, client: Client, tmp_path: Path
) -> None:
    client.create_swarm(swarm_id=SWARM)
    await two_tasks_done(server.url, tmp_path)
    async with worker_at(server.url, tmp_path) as worker:
        worker.tasks_completed = 2
        await worker.report_error("task-3", "test_failure", "red", False)
    assert await resumed(server.url, tmp_path) == 0
    assert checkpoint(tmp_path)["tasks_completed"] == 0
    found = worker_view(client)
    assert (found["attempt"], found["tasks_completed"]) == (2, 0)


async def test_queued_reports_are_delivered_and_counted_before_the_worker_resumes(
    server: RunningServer, client: Client, tmp_path: Path
) -> None:
    client.create_swarm(swarm_id=SWARM)
    server.kill()
    await two_tasks_done(server.url, tmp_path)
    assert len(waiting(tmp_path)) == 3
    checkpoint_file(tmp_path).unlink()
    server.start()
    assert await resumed(server.url, tmp_path) == 2
    assert waiting(tmp_path) == []
    assert worker_view(client)["tasks_completed"] == 2


async def test_a_complete_packet_stays_complete_and_its_checkpoint_can_be_cleaned_up(
    server: RunningServer, client: Client, tmp_path: Path
) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    client.create_swarm(swarm_id=SWARM, workers_expected=2)
    await two_tasks_done(server.url, one)
    accepted(client, "complete", complete_body())
    checkpoint_file(one).unlink()
    assert await resumed(server.url, one) == 2
    found = checkpoint(one)
    assert (found["event"], found["tasks_completed"]) == ("complete", 2)
    assert (found["final_commit"], found["tests_passed"]) == ("def5678901", True)
    async with worker_at(server.url, two, packet_id=2, packet_name="page") as other:
        await other.register()
        await other.report_complete("def5678902", True, True)
    assert not checkpoint_file(one).exists()


async def test_the_checkpoint_of_a_complete_swarm_is_removed(
    server: RunningServer, client: Client, tmp_path: Path
) -> None:
    client.create_swarm(swarm_id=SWARM)
    await two_tasks_done(server.url, tmp_path)
    accepted(client, "complete", complete_body())
    assert checkpoint_file(tmp_path).exists()
    assert await resumed(server.url, tmp_path) == 2
    assert not checkpoint_file(tmp_path).exists()
    assert worker_view(client)["status"] == "complete"


async def test_a_worker_with_a_different_total_resumes_from_the_same_count(
    server: RunningServer, client: Client, tmp_path: Path
) -> None:
    client.create_swarm(swarm_id=SWARM)
    await two_tasks_done(server.url, tmp_path)
    async with worker_at(server.url, tmp_path, tasks_total=20) as worker:
        await worker.resume()
        assert worker.tasks_completed == 2
        assert checkpoint(tmp_path)["tasks_total"] == 20


@pytest.mark.parametrize(
    "status",
    [
        Reply(503),
        Reply(200, {}),
        Reply(200, {"status": "running", "workers": []}),
        Reply(200, {"status": "running", "workers": 5}),
        Reply(200, {"status": "running", "workers": [5]}),
        Reply(200, {"status": "running", "workers": [{"packet_id": 1, "status": "running"}]}),
    ],
    ids=lambda reply: str(reply.body)[:60],
)
async def test_a_status_without_a_usable_count_leaves_the_checkpoint_unchanged(
    status: Reply, server: RunningServer, client: Client, tmp_path: Path
) -> None:
    client.create_swarm(swarm_id=SWARM)
    await two_tasks_done(server.url, tmp_path)

    def answer(received: Received) -> Reply:
        return status if received.path.endswith("status") else Reply(200, {"registered": True})

    with running_fake_server(answer) as fake_server:
        assert await resumed(fake_server.url, tmp_path) == 2
    assert checkpoint(tmp_path)["tasks_completed"] == 2


def test_the_tutorials_worker_can_be_run_again_after_it_has_completed(
    server: RunningServer, client: Client, tmp_path: Path
) -> None:
    (script,) = re.findall(r"```python\n(.*?)```", TUTORIAL.read_text(encoding="utf-8"), re.DOTALL)
    script = script.replace("/tmp/login-worktree", str(tmp_path))
    client.create_swarm(swarm_id="login", workers_expected=1)
    first = run_script(script, server.url)
    again = run_script(script, server.url)
    assert first.count("progress:") == 4
    assert again.count("progress:") == 0
    assert first.splitlines()[-1] == again.splitlines()[-1]
    assert "'swarm_complete': True" in again
    assert client.status("login")["tasks_completed"] == 4
    assert not checkpoint_file(tmp_path).exists()
