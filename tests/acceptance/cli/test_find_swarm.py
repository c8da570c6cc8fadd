"""Commands without --swarm: they list every swarm, and decide in the only one that matches."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.bus.bus import ask
from tests.acceptance.bus.bus_calls import InSwarm, message
from tests.acceptance.cli.handoff_commands import HONEST, Handoffs
from tests.acceptance.swarms.packets import SWARM, accepted, error_body, register_body
from tests.client import Client
from tests.commands import Done, shiftboss
from tests.repos import Repo
from tests.running import RunningServer

pytestmark = pytest.mark.requirement("OWN-11")


@pytest.fixture
def server(shared_server: RunningServer, shared_client: Client) -> RunningServer:
    """Of all tests of this module; each begins without a swarm."""
    return shared_server


@pytest.fixture
def client(shared_client: Client) -> Client:
    return shared_client


def run(server: RunningServer, *arguments: str) -> Done:
    token = (Path(server.database).parent / "operator-token").read_text().strip()
    return shiftboss(*arguments, url=server.url, SHIFTBOSS_OPERATOR_TOKEN=token)


def printed(server: RunningServer, *arguments: str) -> str:
    done = run(server, *arguments)
    assert (done.code, done.err) == (0, ""), done
    return done.out


def document(server: RunningServer, *arguments: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(printed(server, *arguments, "--json"))
    return answer


def work(client: Client, swarm_id: str, worker: str = "w", bead_id: str = "bd-1") -> None:
    """A worker of the swarm executes the task, and has used tokens."""
    client.post("/swarm/create", {"swarm_id": swarm_id})
    ask(client, "register_worker", swarm_id=swarm_id, name=worker)
    ask(client, "add_task", swarm_id=swarm_id, bead_id=bead_id, title="T")
    ask(client, "submit_task", swarm_id=swarm_id, bead_id=bead_id)
    ask(client, "ack_task", swarm_id=swarm_id, name=worker, bead_id=bead_id)
    at_work = {"swarm_id": swarm_id, "name": worker, "bead_id": bead_id, "epoch": 1}
    ask(client, "report_usage", input_tokens=10, dollars=0.5, **at_work)


def candidates(done: Done, *swarms: str) -> list[list[str]]:
    """The arguments of the commands that the error prints, one for each swarm."""
    assert done.code == 1, done
    commands = [shlex.split(command) for command in re.findall("`(.*?)`", done.err)]
    assert sorted(command[-1] for command in commands) == sorted(swarms), done
    return [command[1:] for command in commands]


def test_workers_and_usage_of_every_swarm_are_listed(server: RunningServer, client: Client) -> None:
    work(client, "login", "ada")
    work(client, "search", "bob")
    for command, members in (("worker list", ("ada", "bob")), ("usage", ("bd-1", "$0.50"))):
        listed = printed(server, *command.split())
        for part in ("swarm login:", "swarm search:", *members):
            assert part in listed
    workers = document(server, "worker", "list")["workers"]
    named = {(worker["swarm_id"], worker["name"]) for worker in workers}
    assert named == {("login", "ada"), ("search", "bob")}
    usage = document(server, "usage")
    assert (usage["swarm"]["tokens"], usage["swarm"]["dollars"]) == (20, 1.0)
    assert {row["swarm_id"] for row in usage["tasks"]} == {"login", "search"}
    assert {row["swarm_id"]: row["swarm"]["tokens"] for row in usage["swarms"]} == {
        "login": 10,
        "search": 10,
    }
    assert document(server, "usage", "--swarm", "login")["swarm"]["tokens"] == 10


def test_a_worker_is_reset_in_the_only_swarm_that_has_it(
    server: RunningServer, client: Client
) -> None:
    work(client, "login", "ada")
    work(client, "search", "bob")
    assert printed(server, "worker", "reset", "bob") == "bob is free; bd-1 is queued again\n"
    work(client, "sales", "ada")
    for command in candidates(run(server, "worker", "reset", "ada"), "login", "sales"):
        assert printed(server, *command) == "ada is free; bd-1 is queued again\n"


def test_a_budget_is_set_for_the_only_swarm_with_tasks(
    server: RunningServer, client: Client
) -> None:
    work(client, "login")
    dollars = ("budget", "set", "--dollars", "20")
    assert printed(server, *dollars) == "login may use $20.00\n"
    work(client, "search")
    for command in candidates(run(server, *dollars), "login", "search"):
        assert printed(server, *command) == f"{command[-1]} may use $20.00\n"


def test_the_only_swarm_is_shown_and_its_events_are_printed(
    server: RunningServer, client: Client
) -> None:
    for command in (("events",), ("swarm", "show")):
        assert (
            "there is no swarm yet; create one: shiftboss swarm create" in run(server, *command).err
        )
    work(client, "login")
    assert "swarm login created" in printed(server, "events", "--since", "0")
    assert document(server, "swarm", "show")["swarm_id"] == "login"
    work(client, "search")
    for command in (("events",), ("swarm", "show")):
        for choice in candidates(run(server, *command), "login", "search"):
            assert choice[-1] in printed(server, *choice)


def test_answered_questions_of_every_swarm_are_listed(
    server: RunningServer, client: Client
) -> None:
    for swarm_id in ("login", "search"):
        work(client, swarm_id)
        blocked = message("blocked", payload={"question": f"Which {swarm_id}?"})
        assert client.post(f"/messages?swarm_id={swarm_id}", blocked).status_code == 200
        printed(server, "questions", "answer", "1", "the old one")
    assert printed(server, "questions", "list") == "no open questions\n"
    listed = printed(server, "questions", "list", "--all")
    for part in ("swarm login:", "Which login?", "swarm search:", "Which search?"):
        assert part in listed
    questions = document(server, "questions", "list", "--all")["questions"]
    assert {row["swarm_id"] for row in questions} == {"login", "search"}


def test_decided_scope_requests_are_listed_without_their_swarm(
    server: RunningServer, tmp_path: Path
) -> None:
    bus = InSwarm(server.url)
    handoffs = Handoffs(server, bus, Repo(tmp_path / "repo"))
    handoffs.spawn("t-1")
    handoffs.spawn("t-2", "docs/")
    handoffs.repo.commit("work", HONEST)
    assert handoffs.run("complete", "t-2").code == 1
    asked = handoffs.run("scope", "request", "t-2", "src/auth/a.py", "--reason", "explain it")
    assert asked.out.splitlines()[-1].startswith("scope request 1 waits"), asked
    printed(server, "scope", "refuse", "1")
    assert printed(server, "scope", "list") == "no open scope requests\n"
    assert "src/auth/a.py" in printed(server, "scope", "list", "--all")
    (request,) = document(server, "scope", "list", "--all")["requests"]
    assert request["swarm_id"] == handoffs.swarm
    bus.close()


@pytest.mark.parametrize(
    ("command", "printed_line"),
    [
        (("approve",), "t-1 is approved at"),
        (("reject", "--reason", "no"), "t-1 is rejected; its commit does not land"),
    ],
    ids=("approve", "reject"),
)
def test_a_review_is_decided_without_its_swarm(
    server: RunningServer, tmp_path: Path, command: tuple[str, ...], printed_line: str
) -> None:
    bus = InSwarm(server.url)
    handoffs = Handoffs(server, bus, Repo(tmp_path / "repo"))
    handoffs.in_review()
    assert printed(server, *command, "t-1").startswith(printed_line)
    bus.close()


def test_why_explains_a_packet(server: RunningServer, client: Client) -> None:
    client.post("/swarm/create", {"swarm_id": SWARM})
    accepted(client, "register", register_body(3))
    accepted(client, "error", error_body(3, error_type="network_error", recoverable=True))
    told = printed(server, "why", "packet-3")
    assert told.startswith(f"packet-3 of the swarm {SWARM} is "), told
    reasons = document(server, "why", "packet-3")["reasons"]
    assert [reason["kind"] for reason in reasons] == ["retry", "at_work"]
    for reason in reasons:
        printed(server, *shlex.split(reason["command"])[1:])
    unknown = run(server, "why", "packet-9")
    assert (unknown.code, unknown.err.startswith("Unknown task: packet-9")) == (1, True), unknown
