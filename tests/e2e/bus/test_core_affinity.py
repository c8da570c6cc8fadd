"""The threads of a server share a core; what it starts may use all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from shiftboss.evidence.subprocess.proxy import EvidenceProxy
from shiftboss.server.fast_path.core_affinity import CHOICE_SECONDS, usable_cores
from tests.repos import Repo
from tests.running import RunningServer
from tests.waiting import wait_until

CORES = usable_cores()

pytestmark = [
    pytest.mark.requirement("BUS-01"),
    pytest.mark.skipif(len(CORES) < 2, reason="there is no second core, or no choosing"),
]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RunningServer]:
    server = RunningServer(tmp_path / "shiftboss.db").start()
    yield server
    server.close()


def used_by(pid: int) -> set[int]:
    """The cores that the threads of a process may use."""
    threads = [int(one.name) for one in Path(f"/proc/{pid}/task").iterdir()]
    assert len(threads) > 1, "the event loop and the thread that writes"
    return {core for thread in threads for core in os.sched_getaffinity(thread)}


def test_all_threads_of_a_server_are_on_one_core(server: RunningServer) -> None:
    wait_until(lambda: len(used_by(server.pid)) == 1, "one core for all threads")
    assert used_by(server.pid) <= CORES


def test_the_core_is_chosen_again_and_again(server: RunningServer) -> None:
    wait_until(lambda: len(used_by(server.pid)) == 1, "one core for all threads")
    psutil.Process(server.pid).cpu_affinity([*CORES])
    assert used_by(server.pid) == CORES
    wait_until(lambda: len(used_by(server.pid)) == 1, "one core again", seconds=4 * CHOICE_SECONDS)


@pytest.mark.anyio
async def test_the_evidence_process_may_use_all_cores(tmp_path: Path) -> None:
    repo = Repo(tmp_path / "repo")
    state = tmp_path / "state"
    evidence = EvidenceProxy(state, None, CORES)
    os.sched_setaffinity(0, {min(CORES)})
    try:
        await evidence.identity(str(repo.path))
        (process,) = (one for one in psutil.Process().children() if str(state) in one.cmdline())
        assert set(process.cpu_affinity()) == CORES
    finally:
        os.sched_setaffinity(0, CORES)
        await evidence.close()
