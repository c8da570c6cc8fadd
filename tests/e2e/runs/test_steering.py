"""The operator steers a run while it goes on: questions, pauses, cancelled tasks."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from tests.plan_runs import PlanProject, task
from tests.waiting import wait_until

pytestmark = pytest.mark.requirement("OWN-12")


@pytest.fixture
def project(tmp_path: Path) -> PlanProject:
    return PlanProject(tmp_path)


def test_a_run_stays_until_its_questions_are_answered_and_ends_what_is_cancelled(
    project: PlanProject,
) -> None:
    """One agent asks and exits; another hangs and is cancelled, with a task that depends on it."""
    project.plan(
        task("unsure", do="ask"),
        task("slow", do="hang deaf"),
        task("after", "slow"),
        swarm="day",
        workers=2,
        attempts=1,
    )
    run = project.start()
    agent = project.wait_for_agent("slow.1")
    with project.running_client() as client:
        client.post("/bus/cancel_task", {"swarm_id": "day", "bead_id": "slow", "reason": "rethink"})
        wait_until(lambda: not psutil.pid_exists(agent), "the agent is ended", 30)
        wait_until(lambda: "blocked: question 1" in project.log(), "the run shows the question", 60)
        client.post("/bus/answer_question", {"swarm_id": "day", "question_id": 1, "answer": "blue"})
    outcome = run.outcome()
    assert (outcome["landed"], outcome["cancelled"]) == (["unsure"], ["slow"])
    assert (outcome["failed"], outcome["waiting"]) == ([], ["after"])
    assert "depends on slow, which was cancelled" in outcome["stuck"]["after"]
    log = project.log()
    assert "slow: cancelled by the operator: rethink" in log
    assert log.count("slow: cancelled by") == 1
    project.plan(task("unsure", do="ask"), task("slow", do="hang deaf"), swarm="day")
    again = project.run()
    assert again["done"], "a plan whose tasks have landed or were cancelled is done"
    assert again["cancelled"] == ["slow"]
