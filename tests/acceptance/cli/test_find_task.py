"""Commands that take a task find its swarm by themselves."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.acceptance.bus.bus import ask
from tests.acceptance.bus.bus_calls import InSwarm
from tests.acceptance.cli.handoff_commands import Handoffs
from tests.client import Client
from tests.commands import shiftboss
from tests.repos import Repo
from tests.running import RunningServer


def add(client: Client, swarm_id: str, bead_id: str) -> None:
    client.post("/swarm/create", {"swarm_id": swarm_id})
    ask(client, "add_task", swarm_id=swarm_id, bead_id=bead_id, title=f"Title in {swarm_id}")


@pytest.mark.requirement("OWN-11")
def test_the_only_swarm_with_the_task_is_found(server: RunningServer, client: Client) -> None:
    add(client, "login", "bd-1")
    add(client, "search", "bd-2")
    shown = shiftboss("task", "show", "bd-2", url=server.url)
    assert (shown.code, "Title in search" in shown.out) == (0, True), shown
    assert shiftboss("task", "cancel", "bd-1", url=server.url).out == "bd-1 is cancelled\n"
    budget = shiftboss("budget", "set", "--task", "bd-2", "--tokens", "5", url=server.url)
    assert budget.out == "bd-2 may use 5 tokens\n", budget


@pytest.mark.requirement("OWN-11")
def test_candidates_are_listed_with_commands_that_work_as_printed(
    server: RunningServer, client: Client
) -> None:
    add(client, "login", "bd-1")
    add(client, "search", "bd-1")
    done = shiftboss("task", "show", "bd-1", url=server.url)
    assert done.code == 1
    assert done.err.startswith("2 swarms have a task bd-1: login (open), search (open); ")
    commands = re.findall("`(.*?)`", done.err)
    assert len(commands) == 2
    for command, swarm_id in zip(commands, ("login", "search"), strict=True):
        shown = shiftboss(*shlex.split(command)[1:], url=server.url)
        assert (shown.code, f"Title in {swarm_id}" in shown.out) == (0, True), shown


@pytest.mark.requirement("OWN-11")
def test_a_task_that_no_swarm_has_is_reported_as_unknown(
    server: RunningServer, client: Client
) -> None:
    add(client, "login", "bd-1")
    for command in (("task", "show"), ("receipt", "show")):
        done = shiftboss(*command, "nope", url=server.url)
        assert (done.code, done.err.startswith("Unknown task: nope; ")) == (1, True), done


@pytest.mark.requirement("OWN-11")
def test_a_receipt_is_found_without_its_swarm(server: RunningServer, tmp_path: Path) -> None:
    bus = InSwarm(server.url)
    handoffs = Handoffs(server, bus, Repo(tmp_path / "repo"))
    handoffs.accepted("t-1")
    shown = shiftboss("receipt", "show", "t-1", url=server.url)
    assert (shown.code, shown.err) == (0, ""), shown
    assert handoffs.run("receipt", "show", "t-1").out == shown.out
    bus.close()
