"""`serve --workers`: several server processes behind one port."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.client import Client
from tests.commands import Running, running, shiftboss
from tests.fork_server import start_python
from tests.waiting import wait_until

PROCESSES = 2
_READY = re.compile(r"server process (\d) \(pid (\d+)\) is ready")
_ENDED = re.compile(r"server process (\d) \(pid (\d+)\) ended \((\w+)\); it is started again")


class Served:
    def __init__(self, command: Running, state: Path) -> None:
        self._command = command
        self.url = command.line().split()[2].rstrip(";")
        self._token = state.joinpath("operator-token").read_text().strip()
        self.pids: dict[int, int] = {}
        self.wait_for_ready(PROCESSES)

    def wait_for_ready(self, count: int) -> None:
        for _ in range(count):
            found = self.next_line(_READY)
            self.pids[int(found[1])] = int(found[2])

    def next_line(self, wanted: re.Pattern[str]) -> re.Match[str]:
        while not (found := wanted.search(self._command.error_line())):
            pass
        return found

    def servers(self) -> list[dict[str, Any]]:
        with closing(Client(self.url, self._token)) as client:
            answer = client.post("/operator/show_deployment", {}).json()
        servers: list[dict[str, Any]] = answer["servers"]
        return servers

    def open(self, *arguments: str) -> str:
        done = shiftboss("open", *arguments, SHIFTBOSS_OPERATOR_TOKEN=self._token)
        assert done.code == 0, done
        return done.out

    def addresses(self) -> list[str]:
        wait_until(lambda: len(self.servers()) == PROCESSES, "both servers are listed")
        return [server["address"] for server in self.servers()]


@pytest.fixture
def served(postgres_url: str, tmp_path: Path) -> Iterator[Served]:
    arguments = ["--db", postgres_url, "--port", "0", "--workers", str(PROCESSES)]
    state = tmp_path / "state"
    logs = ["--state", str(state), "--log-level", "info"]
    with running("serve", *arguments, *logs, folder=tmp_path) as command:
        served = Served(command, state)
        yield served
        command.signal(signal.SIGTERM)
        assert command.end().code == 0
    assert not any(Path(f"/proc/{pid}").exists() for pid in served.pids.values())
    assert not (state / "server.json").exists()


def test_processes_share_a_port_and_each_is_a_server_of_its_own(served: Served) -> None:
    addresses = served.addresses()
    with ExitStack() as stack:
        one, watching, other, shared = (
            stack.enter_context(closing(Client(url)))
            for url in (addresses[0], *addresses, served.url)
        )
        assert served.url not in addresses
        # Commands recognise the server of the folder by it.
        assert len({each.get("/health").json()["started_at"] for each in (one, other, shared)}) == 1
        check_a_poll_is_woken(one, watching, other)


def test_a_login_link_has_the_address_of_all_processes(served: Served) -> None:
    for address in served.addresses():
        opened = served.open("--print", "--server", address)
        assert opened.startswith(f"{served.url}/login#"), opened


def check_a_poll_is_woken(one: Client, watching: Client, other: Client) -> None:
    """A task that is submitted at one server reaches the poll that is parked at the other one."""
    swarm = {"swarm_id": one.create_swarm()}
    assert one.post("/bus/register_worker", {**swarm, "name": "w"}).is_success
    assert other.post("/bus/add_task", {**swarm, "bead_id": "t", "title": "Task"}).is_success
    poll = {**swarm, "name": "w", "timeout_ms": 60_000}
    with ThreadPoolExecutor(1) as threads:
        # It waits longer than a client for its answer: only a notification can end it in time.
        parked = threads.submit(one.post, "/bus/poll_task", poll)
        wait_until(lambda: statuses(watching, swarm) == ["polling"], "the poll is parked")
        assert other.post("/bus/submit_task", {**swarm, "bead_id": "t"}).is_success
        assert parked.result().json()["task"]["bead_id"] == "t"


def statuses(client: Client, swarm: dict[str, str]) -> list[str]:
    workers = client.post("/bus/get_status", swarm).json()["workers"]
    return [worker["status"] for worker in workers]


def test_a_process_that_dies_is_started_again_and_its_connections_wait(served: Served) -> None:
    (before,) = (pid for number, pid in served.pids.items() if number == 2)
    os.kill(before, signal.SIGKILL)
    ended = served.next_line(_ENDED)
    assert (ended[1], ended[2], ended[3]) == ("2", str(before), "SIGKILL")
    # Some of them are for the process that is gone.
    for _ in range(10):
        assert httpx2.get(f"{served.url}/health", trust_env=False, timeout=30).status_code == 200
    served.wait_for_ready(1)
    assert served.pids[2] != before


def test_all_end_when_the_process_that_started_them_is_killed(
    postgres_url: str, tmp_path: Path
) -> None:
    arguments = ["--db", postgres_url, "--port", "0", "--workers", str(PROCESSES)]
    logs = ["--state", str(tmp_path / "state"), "--log-level", "info"]
    with running("serve", *arguments, *logs, folder=tmp_path) as command:
        served = Served(command, tmp_path / "state")
        command.signal(signal.SIGKILL)
        for pid in served.pids.values():
            wait_until(lambda pid=pid: has_ended(pid), "the server process ends")  # type: ignore[misc]


def has_ended(pid: int) -> bool:
    """Nobody may have asked for the outcome of the process yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


# Is told to stop at the moment that its child exists.
_STOPPED_WHILE_STARTING = """
import os, signal, sys
from pathlib import Path
from shiftboss.server import server_processes
from shiftboss.server.settings import ServerSettings

server_processes.STOP_SECONDS = 3600.0
os.register_at_fork(after_in_parent=lambda: os.kill(os.getpid(), signal.SIGTERM))
folder = Path(sys.argv[1])
settings = ServerSettings("postgresql:///none", host="127.0.0.1", port=0, state=folder)
server_processes.one_of_several(settings, 1, print)
signal.pause()
"""


def test_a_stop_that_comes_while_a_process_is_started_reaches_it(tmp_path: Path) -> None:
    process = start_python(["-c", _STOPPED_WHILE_STARTING, str(tmp_path)])
    try:
        out, err = process.communicate(timeout=30)
    finally:
        process.kill()
    assert (process.returncode, out, err) == (0, b"", b"")


def test_a_database_that_cannot_be_used_is_an_error_of_the_whole(tmp_path: Path) -> None:
    nowhere = f"postgresql://me@/shiftboss?host={tmp_path}"
    done = shiftboss("serve", "--db", nowhere, "--workers", "3", "--port", "0", folder=tmp_path)
    assert done.code == 1
    assert done.err.count("cannot use PostgreSQL") == 1


def test_a_file_is_served_by_one_process(tmp_path: Path) -> None:
    done = shiftboss("serve", "--db", "a.db", "--workers", "2", "--port", "0", folder=tmp_path)
    assert done.code == 1
    assert "workers: a SQLite file has one server process" in done.err
    assert not (tmp_path / "a.db").exists()
