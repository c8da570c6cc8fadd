"""A verifier in a separate process, for a server that does not verify itself."""

from __future__ import annotations

import errno
import json
import os
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.bus.bus import ask
from tests.client import Client
from tests.commands import Running, running, shiftboss
from tests.repos import UNCONTAINED, Repo
from tests.running import RunningServer
from tests.waiting import wait_until

OPERATOR = "the-operator-alone-knows-it"
pytestmark = pytest.mark.requirement("HO-05")


@pytest.fixture
def server(sqlite_path: str) -> Iterator[RunningServer]:
    """It verifies nothing itself."""
    running_server = RunningServer(
        sqlite_path, verifies=False, operator_token=OPERATOR, spawning="everybody"
    )
    try:
        yield running_server.start()
    finally:
        running_server.close()


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return Repo(tmp_path / "repo")


class Gate:
    """A criterion that waits until it is released: it reads from a named pipe."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._end: int | None = None
        os.mkfifo(path)
        self.criterion = f"Command passes: cat {path}"

    def hold(self) -> None:
        """Wait until the command is running; it keeps waiting."""
        wait_until(self._is_waited_at, "the criterion runs", 30)

    def _is_waited_at(self) -> bool:
        try:
            self._end = os.open(self._path, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            return False
        return True

    def is_left(self) -> bool:
        """Whether no process is left."""
        assert self._end is not None
        try:
            os.write(self._end, b"still there?\n")
        except BrokenPipeError:
            return True
        return False

    def close(self) -> None:
        """Release the waiting command."""
        if self._end is not None:
            os.close(self._end)
            self._end = None


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    gate = Gate(tmp_path / "gate")
    yield gate
    gate.close()


@contextmanager
def verifier(server: RunningServer, folder: Path, name: str) -> Iterator[Running]:
    command = ("verifier", "--folder", str(folder), "--name", name)
    with running(*command, url=server.url, SHIFTBOSS_OPERATOR_TOKEN=OPERATOR) as process:
        assert process.line() == f"{name} verifies for {server.url}; stop with Ctrl-C"
        yield process


def claimed(client: Client, repo: Repo, criterion: str) -> dict[str, Any]:
    """Spawn a task, do it, and claim it without waiting for the verdict."""
    spawn = {
        "files": ["src/auth/"],
        "success_criteria": [criterion],
        "repo": str(repo.path),
        "policy": UNCONTAINED,
    }
    ask(client, "swarm_spawn_subtask", bead_id="t-1", subtask_title="T", **spawn)
    repo.commit("work", {"src/auth/login.py": "def login():\n    return 'token'\n"})
    return ask(client, "swarm_complete", bead_id="t-1", wait_ms=0)


def last_claim(client: Client) -> dict[str, Any]:
    claim: dict[str, Any] = ask(client, "show_handoff", bead_id="t-1")["last_claim"]
    return claim


def test_a_claim_waits_for_a_remote_verifier_which_accepts_it(
    server: RunningServer, client: Client, repo: Repo, tmp_path: Path
) -> None:
    answer = claimed(client, repo, "Command passes: grep -q token src/auth/login.py")
    assert (answer["status"], answer["success"]) == ("verifying", False)
    result = shiftboss("complete", "t-1", "--wait", "0", url=server.url)
    assert result == (
        1,
        "",
        "claim 1 of t-1 is still being verified; run the same command again to keep waiting\n",
    )
    with verifier(server, tmp_path / "v", "first") as process:
        assert process.line() == "t-1: claim 1 is accepted"
        assert shiftboss("complete", "t-1", url=server.url).code == 0
        process.signal(signal.SIGINT)
        assert process.end() == (0, "", "")


def test_a_remote_verifier_refuses_a_cheat(
    server: RunningServer, client: Client, repo: Repo, tmp_path: Path
) -> None:
    claimed(client, repo, "Command passes: grep -q nothing src/auth/login.py")
    with verifier(server, tmp_path / "v", "first") as process:
        assert process.line() == "t-1: claim 1 is refused"
    (violation,) = last_claim(client)["verdict"]["violations"]
    assert violation["check"] == "criterion"


def test_a_killed_verifier_leaves_nothing_and_another_takes_over_its_claim(
    server: RunningServer, client: Client, repo: Repo, gate: Gate, tmp_path: Path
) -> None:
    claimed(client, repo, gate.criterion)
    with verifier(server, tmp_path / "v", "first") as process:
        gate.hold()
        process.signal(signal.SIGKILL)
        process.end()
    wait_until(gate.is_left, "the criterion is gone", 30)
    gate.close()
    assert last_claim(client)["state"] == "taken"
    _let_its_time_pass(server)
    with verifier(server, tmp_path / "v", "second") as process:
        gate.hold()
        gate.close()
        assert process.line() == "t-1: claim 1 is accepted"


def _let_its_time_pass(server: RunningServer) -> None:
    """Pretend that two minutes have passed."""
    server.stop()
    with sqlite3.connect(server.database) as database:
        database.execute("UPDATE claims SET taken_until_ms = 1")
    database.close()
    server.start()


def test_a_stopped_verifier_gives_its_claim_back(
    server: RunningServer, client: Client, repo: Repo, gate: Gate, tmp_path: Path
) -> None:
    claimed(client, repo, gate.criterion)
    with verifier(server, tmp_path / "v", "first") as process:
        gate.hold()
        process.signal(signal.SIGTERM)
        assert process.end().code == 0
    wait_until(gate.is_left, "the command has ended with the verifier", 30)
    assert last_claim(client)["state"] == "waiting"


def test_a_verifier_without_the_repository_leaves_the_claim_to_one_that_has_it(
    server: RunningServer, client: Client, repo: Repo, tmp_path: Path
) -> None:
    claimed(client, repo, "Command passes: git --version")
    moved = repo.path.rename(tmp_path / "moved")
    with verifier(server, tmp_path / "v", "blind") as process:
        left = "t-1: claim 1 is left to other verifiers: There is no folder"
        assert process.line() == f"{left} {repo.path}"
        moved.rename(repo.path)
        with verifier(server, tmp_path / "w", "seeing") as other:
            assert other.line() == "t-1: claim 1 is accepted"
    (passed,) = last_claim(client)["passes"]
    assert (passed["verifier"], passed["times"]) == ("blind", 1)
    assert last_claim(client)["verifier"] == "seeing"


def test_a_verifier_reconnects_by_itself(
    server: RunningServer, client: Client, repo: Repo, tmp_path: Path
) -> None:
    with verifier(server, tmp_path / "v", "first") as process:
        server.stop()
        server.start()
        claimed(client, repo, "Command passes: git --version")
        assert process.line() == "t-1: claim 1 is accepted"


def test_a_verifier_needs_the_operators_token(server: RunningServer, tmp_path: Path) -> None:
    command = ("verifier", "--folder", str(tmp_path / "v"), "--json")
    missing = shiftboss(*command, url=server.url, folder=tmp_path)
    assert (missing.code, missing.out) == (1, "")
    assert missing.err.startswith("only the operator may do this, and there is no ")
    wrong = shiftboss(*command, url=server.url, SHIFTBOSS_OPERATOR_TOKEN="a-guess")
    assert (wrong.code, json.loads(wrong.out)["server"]) == (1, server.url)
    assert wrong.err.startswith("only the operator may do this; ")
    assert wrong.err.count("\n") == 1


def test_a_folder_can_have_only_one_verifier(server: RunningServer, tmp_path: Path) -> None:
    with verifier(server, tmp_path / "v", "first"):
        wait_until((tmp_path / "v" / "lock").exists, "the first has its folder")
        command = ("verifier", "--folder", str(tmp_path / "v"))
        done = shiftboss(*command, url=server.url, SHIFTBOSS_OPERATOR_TOKEN=OPERATOR)
    assert done.code == 1
    assert done.err.startswith(f"another verifier uses the folder {tmp_path / 'v'}; ")
