"""The document's own snippets, run as they are against the real server."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.acceptance.packets import SWARM, kinds, worker
from tests.acceptance.workers import as_script, run_script
from tests.client import Client
from tests.running import RunningServer

METHOD_1 = """
from spellbook.coordination import SwarmWorker

# Initialize worker
worker = SwarmWorker(
    swarm_id="swarm-abc123",
    packet_id=1,
    packet_name="backend-api",
    worktree="/path/to/worktree",
    tasks_total=10
)

# Register on startup
await worker.register()

# Report each task as it completes
await worker.report_progress(
    task_id="task-1",
    task_name="Implement authentication",
    status="completed",
    commit="abc1234567"  # Optional
)

# Report final completion
await worker.report_complete(
    final_commit="def5678901",
    tests_passed=True,
    review_passed=True
)

# Or report errors
await worker.report_error(
    task_id="task-2",
    error_type="test_failure",
    message="Authentication tests failed with 3 failures",
    recoverable=False
)
"""

METHOD_2 = """
from spellbook.coordination.backends import get_backend

backend = get_backend("mcp-streamable-http", {
    "host": "127.0.0.1",
    "port": 7432
})

# Register
response = await backend.register_worker(
    swarm_id="swarm-abc123",
    packet_id=1,
    packet_name="backend-api",
    tasks_total=10,
    worktree="/path/to/worktree"
)

# Report progress
response = await backend.report_progress(
    swarm_id="swarm-abc123",
    packet_id=1,
    task_id="task-1",
    task_name="Implement authentication",
    status="completed",
    tasks_completed=1,
    tasks_total=10,
    commit="abc1234567"
)
"""


@pytest.mark.requirement("SW-02")
def test_the_snippet_of_method_1_runs_as_written(
    server: RunningServer, client: Client, tmp_path: Path
) -> None:
    client.create_swarm(swarm_id=SWARM)
    # The path alone is another: not every machine lets the tests create /path.
    snippet = METHOD_1.replace("/path/to/worktree", f"{tmp_path}/path/to/worktree")
    run_script(as_script(snippet), server.url)
    assert kinds(client) == [
        "swarm_created",
        "worker_registered",
        "progress_update",
        "worker_complete",
        "swarm_complete",
        "worker_error",
    ]
    found = worker(client)
    assert (found["status"], found["tasks_completed"]) == ("complete", 1)
    assert found["final_commit"] == "def5678901"


@pytest.mark.requirement("SW-03")
def test_the_snippet_of_method_2_runs_as_written(server: RunningServer, client: Client) -> None:
    client.create_swarm(swarm_id=SWARM)
    snippet = METHOD_2.replace("7432", str(urlsplit(server.url).port))
    output = run_script(as_script(snippet + "\nprint(sorted(response.items()))"), server.url)
    assert "('acknowledged', True)" in output
    assert kinds(client) == ["swarm_created", "worker_registered", "progress_update"]
    found = worker(client)
    assert (found["worktree"], found["tasks_completed"]) == ("/path/to/worktree", 1)


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
