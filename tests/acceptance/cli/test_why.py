"""`why` and `status`: every reason with a command, which works as printed."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.bus.bus import ask
from tests.acceptance.bus.bus_calls import message
from tests.client import Client
from tests.commands import Done, on_terminal, shiftboss
from tests.repos import Repo
from tests.running import RunningServer
from tests.waiting import wait_until

pytestmark = pytest.mark.requirement("OWN-11")


@pytest.fixture
def server(shared_server: RunningServer, shared_client: Client) -> RunningServer:
    """Of all tests of this module; each begins without a swarm."""
    return shared_server


@pytest.fixture
def client(shared_client: Client) -> Client:
    return shared_client


class Operator:
    """Asks why, and follows the advice as it is printed."""

    def __init__(self, server: RunningServer, client: Client, folder: Path) -> None:
        self.server = server
        self.client = client
        self.folder = folder
        self._token = (Path(server.database).parent / "operator-token").read_text().strip()

    def run(self, *arguments: str) -> Done:
        return shiftboss(
            *arguments,
            url=self.server.url,
            folder=self.folder,
            SHIFTBOSS_OPERATOR_TOKEN=self._token,
        )

    def why(self, bead_id: str) -> dict[str, str]:
        """The commands by kind of the reason. People read the same."""
        reasons = json.loads(self.run("why", bead_id, "--json").out)["reasons"]
        printed = " ".join(self.run("why", bead_id).out.split())
        for reason in reasons:
            assert reason["command"] in printed, printed
            assert reason["text"] in printed, printed
        assert f"of the swarm login is {self.listed(bead_id)}:" in printed
        return {reason["kind"]: reason["command"] for reason in reasons}

    def listed(self, bead_id: str) -> str:
        """The status of the task in `task list`. Only `in review` has two words."""
        lines = self.run("task", "list", "--swarm", "login").out.splitlines()
        (line,) = [line for line in lines if line.split()[0] == bead_id]
        return re.split("  +", line)[1]

    def follow(self, command: str) -> Done:
        program, *arguments = shlex.split(command)
        done = self.run(*arguments)
        assert (program, done.code, done.err) == ("shiftboss", 0, ""), (command, done)
        return done

    def waiting(self) -> dict[str, str]:
        """What `status` says about waiting, as kinds and commands."""
        seen = json.loads(self.run("status", "--json").out)
        printed = self.run("status").out
        reasons = [reason for swarm in seen["swarms"] for reason in swarm["waiting"]]
        assert all(reason["command"] in printed for reason in reasons), printed
        return {reason["kind"]: reason["command"] for reason in reasons}

    def ask(self, operation: str, **members: object) -> dict[str, Any]:
        return ask(self.client, operation, swarm_id="login", **members)

    def take(self, bead_id: str) -> None:
        task = self.ask("poll_task", name="w", timeout_ms=0)["task"]
        assert task["bead_id"] == bead_id
        self.ask("ack_task", name="w", bead_id=bead_id)


@pytest.fixture
def operator(server: RunningServer, client: Client, tmp_path: Path) -> Operator:
    client.create_swarm(swarm_id="login", feature="Login")
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    return Operator(server, client, folder)


def test_tasks_of_the_bus_tell_why_they_wait_and_the_advice_works(operator: Operator) -> None:
    operator.ask("add_task", bead_id="a", title="First")
    operator.ask("add_task", bead_id="b", title="Second", depends_on=["a"])
    operator.follow(operator.why("a")["not_submitted"])
    operator.follow(operator.why("a")["queued"])
    operator.ask("submit_task", bead_id="b")
    operator.follow(operator.why("b")["dependency"])
    operator.run("swarm", "pause", "login", "--reason", "lunch")
    pause = operator.why("a")["pause"]
    assert operator.waiting() == {"pause": pause}
    operator.follow(pause)
    assert set(operator.why("a")) == {"queued"}

    operator.ask("register_worker", name="w")
    operator.take("a")
    operator.run("budget", "set", "--task", "a", "--tokens", "100")
    operator.ask("report_usage", bead_id="a", name="w", epoch=1, input_tokens=120)
    budget = operator.why("a")["budget"]
    assert operator.waiting() == {"budget": budget}
    operator.follow(budget)
    assert set(operator.why("a")) == {"at_work"}

    blocked = message("blocked", payload={"task_id": "a", "question": "Which\ncolour?"})
    asked = operator.client.post("/messages?swarm_id=login", blocked)
    assert asked.json()["state"] == "blocked", asked.text
    question = operator.why("a")["question"]
    assert operator.waiting() == {"question": question}
    operator.follow(question)
    operator.ask("task_failed", bead_id="a", name="w", reason="out of luck")
    failed = operator.why("a")["failed"]
    assert operator.waiting() == {"failed": failed}
    operator.follow(failed)
    operator.take("a")
    operator.ask("worker_done", bead_id="a", name="w")
    operator.follow(operator.why("a")["done"])
    operator.run("task", "cancel", "b")
    operator.follow(operator.why("b")["cancelled"])


def test_the_status_counts_the_tasks_of_the_bus_at_any_width(operator: Operator) -> None:
    for bead_id in ("a", "b", "c"):
        operator.ask("add_task", bead_id=bead_id, title="Title")
    operator.ask("register_worker", name="w")
    operator.ask("submit_task", bead_id="a")
    operator.take("a")
    operator.ask("report_usage", bead_id="a", name="w", epoch=1, input_tokens=120, dollars=0.5)
    lines = operator.run("status").out.splitlines()
    assert lines[1].startswith("login  running  ")
    assert lines[1].endswith(" ago  Login")
    assert [" ".join(line.split()) for line in lines[2:]] == [
        "1 active, 2 open",
        "1 worker, 120 tokens, $0.50",
    ]
    (swarm,) = json.loads(operator.run("swarm", "list", "--json").out)["swarms"]
    assert (swarm["status"], swarm["bus"]["active"], swarm["bus"]["dollars"]) == ("running", 1, 0.5)
    listed = operator.run("swarm", "list").out.splitlines()[1]
    assert listed.split()[:4] == ["login", "running", "0/3", "$0.50"]
    shown = json.loads(operator.run("swarm", "show", "login", "--json").out)
    assert [task["bead_id"] for task in shown["tasks"]] == ["a", "b", "c"]
    assert "tasks     1 active, 2 open" in operator.run("status", "login").out
    tasks = json.loads(operator.run("task", "list", "--json").out)["tasks"]
    assert [(task["swarm_id"], task["attempt"]) for task in tasks] == [
        ("login", 1),
        ("login", 0),
        ("login", 0),
    ]
    for columns in (40, 80):
        narrow = on_terminal("status", url=operator.server.url, columns=columns)
        assert "1 active, 2 open" in narrow


def test_an_ended_swarm_is_still_shown(operator: Operator) -> None:
    assert operator.run("status").out.splitlines()[1:] == ["nothing is running or waiting"]
    operator.ask("add_task", bead_id="a", title="Title")
    operator.run("task", "cancel", "a")
    assert "login  complete" in operator.run("status").out


def test_refused_starts_claims_and_landings_tell_why_and_the_advice_works(
    operator: Operator, tmp_path: Path
) -> None:
    repo = Repo(tmp_path / "repo")
    spawn = ("--repo", str(repo.path), "--files", "src/auth/")
    operator.client.create_swarm(swarm_id="earlier")
    first = operator.run("handoff", "spawn", "old", "--title", "O", "--swarm", "earlier", *spawn)
    assert first.code == 0, first
    operator.ask("add_task", bead_id="new", title="New")
    again = ("handoff", "spawn", "new", "--swarm", "login", "--submit", *spawn)
    assert "old of the swarm earlier (open) owns src/auth/" in operator.run(*again).err
    overlap = operator.why("new")["overlap"]
    assert overlap == "shiftboss task cancel old --swarm earlier"
    assert operator.waiting() == {"overlap": overlap}
    operator.follow(overlap)
    operator.follow(operator.why("new")["refused_start"])
    assert operator.run(*again, "--criterion", "Command passes: true").code == 0
    operator.ask("register_worker", name="w")
    operator.take("new")

    request = ("scope", "request", "new", "pyproject.toml", "--reason", "The version is there")
    assert operator.run(*request).code == 0
    scope = operator.why("new")["scope_request"]
    assert operator.waiting() == {"scope_request": scope}
    operator.follow(scope)
    assert "scope_request" not in operator.why("new")

    repo.commit("work", {"README.md": "# Mine\n"})
    assert operator.run("complete", "new", "--name", "w").code == 1
    operator.follow(operator.why("new")["claim_refused"])
    operator.ask("task_failed", bead_id="new", name="w", reason="refused")
    (failed,) = json.loads(operator.run("status", "--json").out)["swarms"][-1]["waiting"]
    (refused,) = [
        reason
        for reason in json.loads(operator.run("why", "new", "--json").out)["reasons"]
        if reason["kind"] == "claim_refused"
    ]
    assert failed["also"] == refused["also"]
    (waive,) = failed["also"]
    assert waive in operator.run("status").out
    operator.follow(waive)
    operator.follow(failed["command"])
    operator.take("new")
    repo.git("reset", "--quiet", "--hard", repo.base)
    repo.commit("work", {"src/auth/login.py": "token\n"})
    done = operator.run("complete", "new", "--name", "w")
    assert done.code == 0, done
    operator.follow(operator.why("new")["not_landed"])
    (login,) = [
        swarm
        for swarm in json.loads(operator.run("swarm", "list", "--json").out)["swarms"]
        if swarm["swarm_id"] == "login"
    ]
    assert (login["status"], login["bus"]["receipts"], login["bus"]["landed"]) == ("complete", 1, 0)


def test_a_claim_that_nobody_can_verify_tells_why_and_the_advice_works(
    operator: Operator, tmp_path: Path
) -> None:
    """The repository is gone for a while: honest work is not refused for that."""
    repo = Repo(tmp_path / "repo")
    spawn = ("--repo", str(repo.path), "--files", "src/auth/", "--submit", "--title", "T")
    criterion = ("--criterion", "Command passes: true", "--sandbox", "off")
    assert operator.run("handoff", "spawn", "t", "--swarm", "login", *spawn, *criterion).code == 0
    operator.ask("register_worker", name="w")
    operator.take("t")
    repo.commit("work", {"src/auth/login.py": "token\n"})
    moved = repo.path.rename(tmp_path / "unmounted")
    assert "still being verified" in operator.run("complete", "t", "--name", "w", "--wait", "0").err
    wait_until(lambda: "stuck_claim" in operator.why("t"), "everybody has looked", 30)
    retry = operator.why("t")["stuck_claim"]
    assert operator.waiting() == {"stuck_claim": retry}
    missing = f"server: There is no folder {repo.path}"
    assert missing in operator.run("claim", "list").out.replace("\n", "")
    assert missing in operator.run("handoff", "show", "t").out.replace(" cannot verify it", "")
    findings = json.loads(operator.run("doctor", "--json").out)["findings"]
    (found,) = [finding for finding in findings if finding["check"] == "claims"]
    assert found["level"] == "problem"
    assert found["todo"].endswith(f"then run: {retry}")
    moved.rename(repo.path)
    operator.follow(retry)
    done = operator.run("complete", "t", "--name", "w")
    assert done.code == 0, done
    assert operator.run("claim", "list").out.startswith("no claim waits for a verdict\nverifiers:")
    events = operator.run("events", "login", "--json").out.splitlines()
    kinds = [json.loads(event)["event"] for event in events]
    assert "claim_refused" not in kinds
    assert kinds.count("claim_escalated") == 1
