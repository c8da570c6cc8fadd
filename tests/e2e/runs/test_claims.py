"""Agents that claim their work by themselves, and what is made of how they end after that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.client import Client
from tests.plan_runs import CRITERION, PlanRoom, task
from tests.running import RunningServer

SWARM = "claims"
# Longer than the agent needs to end.
SLOW = "Command passes: python3 -c 'import time; time.sleep(2)'"


@pytest.fixture
def room(tmp_path: Path) -> PlanRoom:
    return PlanRoom(tmp_path)


def told(room: PlanRoom) -> str:
    return (room.folder / ".shiftboss" / "runs" / SWARM / "run.log").read_text()


def used(room: PlanRoom) -> dict[str, Any]:
    """By task, as a server says when the run is over."""
    server = RunningServer(room.folder / ".shiftboss" / "shiftboss.db").start()
    client = Client(server.url)
    try:
        answer = client.post("/bus/show_usage", {"swarm_id": SWARM}).json()
        return {one["bead_id"]: one["used"] for one in answer["tasks"]}
    finally:
        client.close()
        server.close()


@pytest.mark.requirement("OWN-01", "OWN-03")
def test_work_that_an_agent_has_claimed_is_done_however_it_ends(room: PlanRoom) -> None:
    """One fails afterwards, one goes on for ever, one tells only then what it has used."""
    room.plan(
        task("fails", do="claim error"),
        task("lingers", do="claim linger", timeout=15),
        task("talks", do="claim"),
        swarm=SWARM,
        workers=3,
    )
    outcome = room.run()
    assert sorted(outcome["landed"]) == ["fails", "lingers", "talks"], outcome
    words = told(room)
    assert "failed" not in words
    assert "attempt 2" not in words
    assert words.count("accepted, receipt") == 3, "told once for each"
    assert room.work_trees == []
    tokens = {name: one["input_tokens"] for name, one in used(room).items()}
    assert tokens == dict.fromkeys(outcome["landed"], 5000), "listened to until their end"


@pytest.mark.requirement("OWN-01")
def test_a_verdict_that_the_agent_did_not_wait_for_is_waited_for(room: PlanRoom) -> None:
    room.plan(task("hurried", do="hurry", criteria=[CRITERION, SLOW]), swarm=SWARM)
    assert room.run()["landed"] == ["hurried"]
    words = told(room)
    assert "ended by the server" not in words
    assert "attempt 2" not in words
    assert "hurried: accepted, receipt" in words
