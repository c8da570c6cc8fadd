"""The commands for usage, budgets and pauses, against a real server that is killed in between."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.bus.bus import ask, submitted, task
from tests.client import Client
from tests.commands import Done, shiftboss
from tests.running import RunningServer

pytestmark = pytest.mark.requirement("OWN-07")


class RunCommands:
    """Two tasks: `a` is executing, `b` is queued."""

    def __init__(self, server: RunningServer) -> None:
        self.server = server
        state = Path(server.database).parent
        self.operator_token = (state / "operator-token").read_text().strip()
        self.folder = state

    def run(self, *arguments: str, **variables: str) -> Done:
        folder = self.folder / "elsewhere"
        folder.mkdir(exist_ok=True)
        return shiftboss(*arguments, url=self.server.url, folder=folder, **variables)

    def operate(self, *arguments: str) -> Done:
        return self.run(*arguments, SHIFTBOSS_OPERATOR_TOKEN=self.operator_token)

    def ok(self, *arguments: str) -> list[str]:
        done = self.run(*arguments)
        assert (done.code, done.err) == (0, ""), done
        return done.out.splitlines()

    def ask(self, operation: str, **members: object) -> dict[str, Any]:
        client = Client(self.server.url)
        try:
            return ask(client, operation, **members)
        finally:
            client.close()

    def uses(self, **members: object) -> dict[str, Any]:
        return self.ask("report_usage", bead_id="a", name="w", epoch=1, **members)


@pytest.fixture
def commands(tmp_path: Path) -> Iterator[RunCommands]:
    server = RunningServer(tmp_path / "shiftboss.db").start()
    client = Client(server.url)
    try:
        ask(client, "register_worker", name="w")
        submitted(client, "a", "b")
        ask(client, "poll_task", name="w", timeout_ms=0)
        ask(client, "ack_task", name="w", bead_id="a")
        yield RunCommands(server)
    finally:
        client.close()
        server.close()


def test_usage_is_shown_and_a_budget_stops_the_task_until_the_operator_raises_it(
    commands: RunCommands,
) -> None:
    assert commands.ok("usage") == ["no usage yet"]
    assert commands.ok("budget", "set", "--task", "a", "--tokens", "1000") == [
        "a may use 1,000 tokens"
    ]
    used = commands.uses(input_tokens=1500, output_tokens=20, cached_tokens=7, dollars=1.25)
    assert used["over"] == {"scope": "task", "unit": "tokens", "limit": 1000, "spent": 1520}
    commands.uses(process=2, input_tokens=10)
    shown = [line.split() for line in commands.ok("usage")]
    assert shown[1][:4] == ["a", "1,510", "20", "7"]
    assert "used up" in " ".join(shown[1])
    assert shown[2][0] == "all"
    listed = json.loads(commands.run("usage", "--json").out)
    assert (listed["swarm"]["dollars"], listed["swarm"]["unpriced_tokens"]) == (1.25, 10)
    status = " ".join("\n".join(commands.ok("status", "default")).split())
    assert "usage 1,530 tokens, $1.25 (10 tokens without a price)" in status
    assert "used up" in status
    (question,) = json.loads(commands.run("questions", "list", "--json").out)["questions"]
    raise_it = "shiftboss budget set --swarm default --task a --tokens 3040"
    assert f"`{raise_it}`" in question["question"]
    assert any("used up" in line for line in commands.ok("events", "default"))

    refused = commands.run("budget", "set", "--task", "a", "--tokens", "9000")
    assert (refused.code, refused.out) == (1, "")
    assert "only the operator may raise a budget" in refused.err
    assert "`shiftboss budget set --swarm default --task a --tokens 9000`" in refused.err
    # The usage and the hold survive a server crash.
    commands.server.kill()
    commands.server.start()
    assert "used up" in commands.ask("heartbeat", name="w")["paused"]
    raised = commands.operate("budget", "set", "--task", "a", "--tokens", "9000")
    assert (raised.code, raised.out) == (0, "a may use 9,000 tokens\n")
    assert "paused" not in commands.ask("heartbeat", name="w")


def test_anyone_can_pause_a_swarm_and_the_operator_resumes_it(commands: RunCommands) -> None:
    assert commands.ok("swarm", "pause", "default", "--reason", "lunch") == [
        "default is paused until it is resumed; resume it: shiftboss swarm resume default"
    ]
    commands.ask("park_task", bead_id="a", name="w", epoch=1, reason="quota", until_ms=1)
    assert "on hold: all tasks, lunch" in commands.ok("worker", "list")
    commands.server.kill()
    commands.server.start()
    assert "lunch" in "\n".join(commands.ok("status", "default"))
    assert commands.ask("poll_task", name="w", timeout_ms=0)["task"] is None
    refused = commands.run("swarm", "resume", "default")
    assert (refused.code, refused.out) == (1, "")
    assert commands.operate("swarm", "resume", "default") == (0, "default is resumed\n", "")
    assert commands.operate("swarm", "resume", "default") == (
        0,
        "default was not paused\n",
        "",
    )
    given = commands.ask("poll_task", name="w", timeout_ms=0)["task"]
    client = Client(commands.server.url)
    try:
        assert (given["bead_id"], task(client, "a")["failures"]) == ("a", 0)
    finally:
        client.close()
    paused = commands.ok("swarm", "pause", "default", "--reason", "x", "--minutes", "5")[0]
    assert paused.partition(";")[0] in ("default is paused for 4m", "default is paused for 5m")
