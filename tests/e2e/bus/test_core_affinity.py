"""The threads of a server share one core; the processes that it starts may use all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from shiftboss.server.fast_path.core_affinity import CHOICE_SECONDS, has_quota, usable_cores
from tests.client import Client
from tests.repos import Repo
from tests.running import RunningServer
from tests.waiting import wait_until

CORES = usable_cores()

pytestmark = [
    pytest.mark.requirement("BUS-01"),
    pytest.mark.skipif(
        len(CORES) < 2 or has_quota(),
        reason="there is no second core, or cores cannot be chosen, or processor time is limited",
    ),
]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RunningServer]:
    server = RunningServer(tmp_path / "shiftboss.db").start()
    yield server
    server.close()


def used_by(pid: int) -> set[int]:
    """The cores that the threads of a process may use."""
    threads = [int(thread.name) for thread in Path(f"/proc/{pid}/task").iterdir()]
    assert len(threads) > 1, "the event loop and the writer thread"
    return {core for thread in threads for core in os.sched_getaffinity(thread)}


def test_all_threads_of_a_server_are_on_one_core(server: RunningServer) -> None:
    wait_until(lambda: len(used_by(server.pid)) == 1, "one core for all threads")
    assert used_by(server.pid) <= CORES


def test_the_core_is_chosen_again_periodically(server: RunningServer) -> None:
    wait_until(lambda: len(used_by(server.pid)) == 1, "one core for all threads")
    psutil.Process(server.pid).cpu_affinity([*CORES])
    assert used_by(server.pid) == CORES
    wait_until(lambda: len(used_by(server.pid)) == 1, "one core again", seconds=4 * CHOICE_SECONDS)


def test_a_process_started_by_the_server_can_use_all_cores(
    server: RunningServer, tmp_path: Path
) -> None:
    wait_until(lambda: len(used_by(server.pid)) == 1, "one core for all threads")
    repo = Repo(tmp_path / "repo")
    with closing(Client(server.url)) as client:
        body = {"bead_id": "t", "subtask_title": "t", "files": ["a.py"], "repo": str(repo.path)}
        response = client.post("/bus/swarm_spawn_subtask", body)
        assert response.status_code == 200, response.text
    (evidence,) = psutil.Process(server.pid).children()
    assert set(evidence.cpu_affinity()) == CORES
