"""A full disk under the real server."""

from __future__ import annotations

import resource

import pytest

from tests.client import Client
from tests.running import RunningServer

pytestmark = pytest.mark.skipif(
    not hasattr(resource, "prlimit"), reason="prlimit is available on Linux only"
)

REPORTS_MAX = 900


def set_file_limit(server: RunningServer, largest_bytes: int) -> None:
    _, hard = resource.prlimit(server.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (largest_bytes, hard))


def progress(client: Client, swarm_id: str, number: int) -> int:
    body = {
        "packet_id": 1,
        "task_id": f"task-{number}",
        "task_name": "x" * 500,
        "status": "completed",
        "tasks_completed": number,
        "tasks_total": 1000,
    }
    return client.post(f"/swarm/{swarm_id}/progress", body).status_code


@pytest.mark.requirement("SW-01", "SW-07")
def test_a_full_disk_gives_503_and_the_server_recovers_without_a_restart(
    server: RunningServer, client: Client
) -> None:
    swarm_id = client.create_swarm()
    body = {"packet_id": 1, "packet_name": "p", "tasks_total": 1000, "worktree": "/w"}
    assert client.post(f"/swarm/{swarm_id}/register", body).status_code == 200
    set_file_limit(server, 1_000_000)  # the log is written from its start

    accepted = 0
    while (code := progress(client, swarm_id, accepted + 1)) == 200:
        accepted += 1
        assert accepted < REPORTS_MAX, "the limit is never reached"
    assert code == 503
    assert progress(client, swarm_id, accepted + 1) == 503
    assert client.status(swarm_id)["tasks_completed"] == accepted > 0

    set_file_limit(server, resource.RLIM_INFINITY)
    assert progress(client, swarm_id, accepted + 1) == 200
    assert client.status(swarm_id)["tasks_completed"] == accepted + 1
    server.kill()
    server.start()
    assert client.status(swarm_id)["tasks_completed"] == accepted + 1
    stored = client.stored_events(swarm_id)
    assert [event.event_id for event in stored] == list(range(1, accepted + 4))
