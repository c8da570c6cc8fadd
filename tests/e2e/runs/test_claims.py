"""Agents that claim their work themselves, whatever they do after that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.client import Client
from tests.plan_runs import CRITERION, PlanProject, task
from tests.running import RunningServer

SWARM = "claims"
# Longer than the agent needs to exit.
SLOW = "Command passes: python3 -c 'import time; time.sleep(2)'"


@pytest.fixture
def project(tmp_path: Path) -> PlanProject:
    return PlanProject(tmp_path)


def run_log(project: PlanProject) -> str:
    return (project.folder / ".shiftboss" / "runs" / SWARM / "run.log").read_text()


def used(project: PlanProject) -> dict[str, Any]:
    """The usage of each task, from the server, after the run."""
    server = RunningServer(project.folder / ".shiftboss" / "shiftboss.db").start()
    client = Client(server.url)
    try:
        answer = client.post("/bus/show_usage", {"swarm_id": SWARM}).json()
        return {task["bead_id"]: task["used"] for task in answer["tasks"]}
    finally:
        client.close()
        server.close()


@pytest.mark.requirement("OWN-01", "OWN-03")
def test_claimed_work_gets_done_however_the_agent_ends(
    project: PlanProject,
) -> None:
    """One fails afterwards, one keeps running, one reports its usage only then."""
    project.plan(
        task("fails", do="claim error"),
        task("lingers", do="claim linger", timeout=15),
        task("talks", do="claim"),
        swarm=SWARM,
        workers=3,
    )
    outcome = project.run()
    assert sorted(outcome["landed"]) == ["fails", "lingers", "talks"], outcome
    log = run_log(project)
    assert "failed" not in log
    assert "attempt 2" not in log
    assert log.count("accepted, receipt") == 3, "logged once for each"
    assert project.worktrees == []
    tokens = {name: usage["input_tokens"] for name, usage in used(project).items()}
    assert tokens == dict.fromkeys(outcome["landed"], 5000), "their output is read until they exit"


@pytest.mark.requirement("OWN-01")
def test_the_run_waits_for_a_verdict_that_the_agent_did_not_wait_for(project: PlanProject) -> None:
    criteria = [CRITERION, SLOW, "It is nice"]
    project.plan(task("hurried", do="hurry", criteria=criteria), swarm=SWARM)
    assert project.run()["landed"] == ["hurried"]
    log = run_log(project)
    assert "ended by the server" not in log
    assert "attempt 2" not in log
    assert "hurried: accepted, receipt" in log
    assert log.count("hurried: not verified: It is nice") == 1, "no command can check it"
