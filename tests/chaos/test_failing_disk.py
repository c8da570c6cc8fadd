"""The real server on a disk that fails: fsync fails or is slow, no space, read-only."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.client import Client
from tests.programs import program
from tests.running import RunningServer
from tests.waiting import wait_until

pytestmark = pytest.mark.requirement("OWN-21")

_SOURCE = Path(__file__).with_name("failing_disk.c")


class Disk:
    """What the server's disk does. `server` is on it."""

    def __init__(self, folder: Path) -> None:
        library = folder / "failing_disk.so"
        subprocess.run(
            [program("gcc"), "-shared", "-fPIC", "-o", library, _SOURCE, "-ldl"],
            check=True,
            timeout=60,
        )
        self._mode = folder / "mode"
        self._mode.write_bytes(b"\0")
        self.server = RunningServer(folder / "shiftboss.db")
        self.server.environment = os.environ | {
            "LD_PRELOAD": str(library),
            "SHIFTBOSS_TEST_DISK": str(self._mode),
        }

    def set(self, mode: str) -> None:
        with self._mode.open("r+b") as file:
            file.write(mode.encode() or b"\0")


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Disk]:
    it = Disk(tmp_path_factory.mktemp("disk"))
    it.server.start()
    yield it
    it.set("")
    it.server.close()


@pytest.fixture
def client(disk: Disk) -> Iterator[Client]:
    disk.set("")
    client = Client(disk.server.url)
    wait_until(lambda: client.get("/health").status_code == 200, "the server is well")
    yield client
    client.close()


def progress(client: Client, swarm_id: str, number: int) -> httpx2.Response:
    body = {
        "packet_id": 1,
        "task_id": f"task-{number}",
        "task_name": "t",
        "status": "completed",
        "tasks_completed": number,
        "tasks_total": 1000,
    }
    return client.post(f"/swarm/{swarm_id}/progress", body, key=f"{swarm_id}-{number}")


def swarm_with_packet(client: Client) -> str:
    swarm_id = client.create_swarm()
    body = {"packet_id": 1, "packet_name": "p", "tasks_total": 1000, "worktree": "/w"}
    assert client.post(f"/swarm/{swarm_id}/register", body).status_code == 200
    return swarm_id


def test_a_failed_fsync_is_unknown_and_a_repeat_with_the_key_counts_once(
    disk: Disk, client: Client
) -> None:
    swarm_id = swarm_with_packet(client)
    assert progress(client, swarm_id, 1).status_code == 200
    disk.set("f")
    refused = progress(client, swarm_id, 2)
    assert (refused.status_code, refused.json()["code"]) == (503, "outcome_unknown")
    assert "nothing was changed" not in refused.text
    assert client.get("/health").status_code == 503
    disk.set("")
    # No write is needed to make it well again.
    wait_until(lambda: client.get("/health").status_code == 200, "the server probes by itself")
    assert progress(client, swarm_id, 2).status_code == 200
    assert client.status(swarm_id)["tasks_completed"] == 2
    assert [event.event_id for event in client.stored_events(swarm_id)] == [1, 2, 3, 4]


@pytest.mark.parametrize(("mode", "words"), [("w", "full"), ("r", "")])
def test_a_full_or_read_only_disk_changes_nothing_and_reads_go_on(
    disk: Disk, client: Client, mode: str, words: str
) -> None:
    swarm_id = swarm_with_packet(client)
    disk.set(mode)
    refused = progress(client, swarm_id, 1)
    assert (refused.status_code, refused.json()["code"]) == (503, "store_unavailable")
    assert words in refused.json()["detail"]
    assert "nothing was changed" in refused.json()["hint"]
    assert client.status(swarm_id)["tasks_completed"] == 0
    disk.set("")
    wait_until(lambda: client.get("/health").status_code == 200, "the server probes by itself")
    assert progress(client, swarm_id, 1).status_code == 200


def test_a_slow_fsync_delays_the_answer_and_reads_do_not_wait(disk: Disk, client: Client) -> None:
    swarm_id = swarm_with_packet(client)
    disk.set("s")
    began = time.monotonic()
    assert progress(client, swarm_id, 1).status_code == 200
    assert time.monotonic() - began > 0.25, "the answer waits for the disk"
    assert client.status(swarm_id)["tasks_completed"] == 1


def test_a_kill_after_a_failed_fsync_leaves_a_state_that_a_repeat_completes(
    disk: Disk, client: Client
) -> None:
    swarm_id = swarm_with_packet(client)
    assert progress(client, swarm_id, 1).status_code == 200
    disk.set("f")
    assert progress(client, swarm_id, 2).json()["code"] == "outcome_unknown"
    disk.server.kill()
    disk.set("")
    disk.server.start()
    assert client.status(swarm_id)["tasks_completed"] in (1, 2), "unknown means either"
    assert progress(client, swarm_id, 2).status_code == 200
    assert client.status(swarm_id)["tasks_completed"] == 2
    assert [event.event_id for event in client.stored_events(swarm_id)] == [1, 2, 3, 4]
