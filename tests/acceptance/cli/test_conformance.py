"""shiftboss conformance: what it prints, how it ends, and that it leaves nothing behind."""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path
from typing import Any

import pytest

from shiftboss.conformance.checks import Broken, CheckList, NotChecked, NotOffered, run_checks
from shiftboss.conformance.server.kit import SERVER_CHECKS
from shiftboss.conformance.worker.profiles import BUS_CHECKS, PACKET_CHECKS
from tests.acceptance.conformance.lying_proxy import Document, lying
from tests.commands import shiftboss
from tests.running import RunningServer
from tests.waiting import wait_until

pytestmark = pytest.mark.requirement("OWN-10")

ROOT = Path(__file__).parents[3]
SHELL_WORKER = ROOT / "examples" / "workers" / "bus_worker.sh"


def test_a_server_that_conforms(shared_server: RunningServer) -> None:
    done = shiftboss("conformance", "--server", shared_server.url, "--only", "SW-13")
    assert done.code == 0, done.err
    assert done.out.splitlines()[0] == ("✓ 000 SW-13 create: POST /swarm/create creates a swarm")
    assert done.out.splitlines()[-1].startswith("server: 2 hold, 0 do not; ")


def test_a_server_that_does_not_conform_is_told_with_what_was_seen(
    shared_server: RunningServer,
) -> None:
    def lie(called: str, _: Document, status: int, answer: Document) -> tuple[int, Document]:
        return status, {**answer, "registered": False} if called == "register" else answer

    with lying(shared_server.url, lie) as proxy:
        done = shiftboss("conformance", "--server", proxy.url, "--only", "register")
        document = json.loads(
            shiftboss("conformance", "--server", proxy.url, "--only", "register", "--json").out
        )
    lines = done.out.splitlines()
    assert done.code == 1
    assert lines[0].startswith("✗ 000 SW-01 register:")
    assert lines[1] == "    'registered' of the answer is false, not true"
    assert any(line.startswith("    | POST /swarm/conformance-") for line in lines)
    assert done.err == "does not conform: register\n"
    assert (document["conforms"], document["broken"], document["holds"]) == (False, 1, 0)
    (result,) = document["results"]
    assert (result["outcome"], result["promise"], result["required"]) == ("broken", "SW-01", True)
    assert result["wire"]


def test_no_server_is_one_error_and_not_a_failure_of_every_check() -> None:
    done = shiftboss("conformance", "--server", "http://127.0.0.1:9")
    assert (done.code, done.out) == (1, "")
    assert "no server at http://127.0.0.1:9" in done.err


def test_a_worker_is_run_with_a_server_of_its_own(tmp_path: Path) -> None:
    command = f"sh {SHELL_WORKER}"
    only = ["--only", "registers", "--only", "reports-failed"]
    done = shiftboss("conformance", "--worker", command, *only, folder=tmp_path)
    assert done.code == 0, done
    assert done.out.splitlines()[-1].startswith("bus worker: 2 hold, 0 do not; ")
    assert list(tmp_path.iterdir()) == [], "nothing is written where the command was started"


def test_a_program_is_started_by_the_link_that_the_command_names(tmp_path: Path) -> None:
    """By its link, the Python of a virtual environment finds its packages."""
    (tmp_path / "real").write_text('#!/bin/sh\necho "I am $0"; exit 3\n')
    (tmp_path / "real").chmod(0o755)
    (tmp_path / "link").symlink_to("real")
    arguments = ["--worker", "./link", "--profile", "bus", "--only", "registers"]
    done = shiftboss("conformance", *arguments, folder=tmp_path)
    assert done.code == 1
    assert f"I am {tmp_path / 'link'}" in done.out


def test_nothing_of_a_worker_is_left_running(tmp_path: Path) -> None:
    worker = tmp_path / "worker.sh"
    left = tmp_path / "left"
    worker.write_text(
        f"#!/bin/sh\nsetsid sh -c 'echo $$ > {left}; exec sleep 600' &\n"
        f"until test -s {left}; do sleep 0.01; done\nexec sh {SHELL_WORKER}\n"
    )
    done = shiftboss(
        "conformance", "--worker", f"sh {worker}", "--profile", "bus", "--only", "registers"
    )
    assert done.code == 0, done
    pid = int(left.read_text())
    wait_until(lambda: not Path(f"/proc/{pid}").exists(), "the daemon of the worker is gone")


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("/there/is/no/such/worker", "cannot start /there/is/no/such/worker"),
        ("sh -c 'echo out of luck; exit 3'", "exit code 3: out of luck"),
    ],
)
def test_a_worker_that_does_not_start_is_told(command: str, reason: str) -> None:
    done = shiftboss("conformance", "--worker", command, "--seconds", "5")
    assert done.code == 1
    assert "cannot tell which one the worker has" in done.err
    assert reason in done.err
    assert "start it by hand" in done.err, "no profile would help"


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ([], "give either --worker or --server"),
        (["--worker", "true", "--server", "http://127.0.0.1:1"], "give either"),
        (["--worker", "true", "--profile", "taxi"], "must be one of auto, bus, packet"),
        (["--worker", ""], "worker: is empty"),
        (["--server", "nowhere"], "is not the address of a server"),
        (["--list", "--only", "SW-99"], "there is no check SW-99"),
    ],
)
def test_wrong_options_are_refused(arguments: list[str], reason: str) -> None:
    done = shiftboss("conformance", *arguments)
    assert done.code == 1
    assert reason in done.err


def test_the_list_has_every_check_with_a_promise_of_the_project() -> None:
    rows = json.loads(shiftboss("conformance", "--list", "--json").out)["checks"]
    names = [(row["subject"], row["check"]) for row in rows]
    assert len(names) == len(set(names)) == len([*BUS_CHECKS, *PACKET_CHECKS, *SERVER_CHECKS])
    promises = tomllib.loads((ROOT / "tests" / "requirements.toml").read_text())
    for row in rows:
        source = promises[row["promise"]]["source"]
        assert row["document"] in (source, "own"), row
    listed = shiftboss("conformance", "--list", "--only", "002").out
    assert "WP-07" in listed
    assert "SW-01" not in listed


class NoBench:
    def wire_position(self) -> int:
        return 0

    def wire_lines(self, since: int) -> list[str]:
        return [f"line {number}" for number in range(since, 20)]

    def recover(self) -> None:
        pass


def test_each_outcome_and_a_strange_answer() -> None:
    checks: CheckList[NoBench] = CheckList()
    raised: list[Any] = [None, Broken("b"), NotOffered("o"), NotChecked("c"), KeyError("epoch")]
    for number, error in enumerate(raised):

        def check(_: NoBench, error: Exception | None = error) -> None:
            if error is not None:
                raise error

        checks.add(f"check-{number}", "000", "SW-01", "It holds", required=number != 1)(check)
    results = run_checks(checks, NoBench(), lambda _: None)
    outcomes = [result.outcome for result in results]
    assert outcomes == ["holds", "broken", "not_offered", "not_checked", "broken"]
    assert [result.is_failure for result in results] == [False, False, False, False, True]
    assert results[-1].reason == "an answer has another form: KeyError: 'epoch'"
    assert results[1].wire == [f"line {number}" for number in range(12, 20)]


def test_a_worker_under_test_gets_no_token_of_the_user(tmp_path: Path) -> None:
    worker = tmp_path / "worker.sh"
    seen = tmp_path / "seen"
    worker.write_text(f"env > {seen}; exec sh {SHELL_WORKER}\n")
    arguments = ["--worker", f"sh {worker}", "--profile", "bus", "--only", "registers"]
    done = shiftboss("conformance", *arguments, SHIFTBOSS_OPERATOR_TOKEN="secret-of-the-user")
    assert done.code == 0, done
    variables = dict(line.split("=", 1) for line in seen.read_text().splitlines() if "=" in line)
    assert variables["SHIFTBOSS_WORKER"]
    assert os.environ.get("SHIFTBOSS_TOKEN") is None
    assert "secret-of-the-user" not in seen.read_text()
