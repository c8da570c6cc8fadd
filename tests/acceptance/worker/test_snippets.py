"""The document's own snippets, run unchanged against the real server."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acceptance.swarms.packets import SWARM, kinds, worker
from tests.acceptance.worker.workers import method, run_script
from tests.client import Client
from tests.running import RunningServer

LIFE = ["swarm_created", "worker_registered", "progress_update"]
FULL_LIFE = [*LIFE, "worker_complete", "swarm_complete", "worker_error"]


@pytest.fixture
def server(shared_server: RunningServer, shared_client: Client) -> RunningServer:
    """Of all tests of this module; each begins without a swarm."""
    return shared_server


@pytest.fixture
def client(shared_client: Client) -> Client:
    return shared_client


@pytest.mark.requirement("SW-02")
def test_the_snippet_of_method_1_runs_as_written(
    server: RunningServer, client: Client, tmp_path: Path
) -> None:
    client.create_swarm(swarm_id=SWARM)
    run_script(method(1, tmp_path, server.url), server.url)
    assert kinds(client) == FULL_LIFE
    found = worker(client)
    assert (found["status"], found["tasks_completed"]) == ("complete", 1)
    assert found["final_commit"] == "def5678901"


@pytest.mark.requirement("SW-03")
def test_the_snippet_of_method_2_runs_as_written(
    server: RunningServer, client: Client, tmp_path: Path
) -> None:
    client.create_swarm(swarm_id=SWARM)
    run_script(method(2, tmp_path, server.url), server.url)
    assert kinds(client) == LIFE
    found = worker(client)
    assert (found["worktree"], found["tasks_completed"]) == (str(tmp_path), 1)


@pytest.mark.requirement("SW-02", "SW-03", "SW-07")
@pytest.mark.parametrize("order", [(1, 2), (2, 1), (1, 1), (2, 2, 1), (1, 2, 1)])
def test_the_snippets_run_in_sequence_on_one_swarm(
    order: tuple[int, ...], server: RunningServer, client: Client, tmp_path: Path
) -> None:
    client.create_swarm(swarm_id=SWARM)
    for number in order:
        run_script(method(number, tmp_path, server.url), server.url)
    events = kinds(client)
    assert [*dict.fromkeys(events)] == FULL_LIFE
    assert (events.count("worker_registered"), events.count("worker_complete")) == (1, 1)
    assert events.count("worker_error") == order.count(1)
    found = worker(client)
    assert (found["status"], found["tasks_completed"]) == ("complete", 1)


@pytest.mark.requirement("SW-02")
def test_one_worker_serves_two_event_loops_and_leaves_nothing_open(
    server: RunningServer, client: Client, tmp_path: Path
) -> None:
    client.create_swarm(swarm_id=SWARM)
    script = f"""
import asyncio
from spellbook.coordination import SwarmWorker

worker = SwarmWorker("{SWARM}", 1, "backend-api", "{tmp_path}/tree", 10)

async def both():
    await asyncio.gather(
        worker.report_progress("task-1", "One", "completed"),
        worker.report_progress("task-2", "Two", "completed"),
    )

asyncio.run(worker.register())
asyncio.run(both())
print(worker.tasks_completed)
"""
    assert run_script(script, server.url) == "2\n"
    assert worker(client)["tasks_completed"] == 2
