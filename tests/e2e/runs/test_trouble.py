"""Agents that hang, ignore signals or delete their work tree: the run continues."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import psutil
import pytest

from tests.plan_runs import PlanProject, task
from tests.waiting import wait_until

pytestmark = pytest.mark.requirement("OWN-01")


@pytest.fixture
def project(tmp_path: Path) -> PlanProject:
    return PlanProject(tmp_path)


def test_work_that_an_agent_destroys_or_leaves_unfinished_is_done_by_another(
    project: PlanProject,
) -> None:
    """Two delete their work trees: one has committed all of its work; the other has committed
    nothing and claims to be done. The third hangs until its timeout."""
    project.plan(
        task("vanisher", do="vanish"),
        task("razer", do="raze"),
        task("hanger", do="hang", timeout=3),
        workers=3,
    )
    outcome = project.run()
    assert sorted(outcome["landed"]) == ["hanger", "razer", "vanisher"], outcome
    assert project.worktrees == []
    subjects = project.git("log", "--glob=refs/shiftboss/*", "--format=%s").splitlines()
    assert "Begin" in subjects, "the commits of the agent that hung are kept"


def test_stubborn_agents_do_not_hold_up_the_others(project: PlanProject) -> None:
    """One hangs and ignores SIGTERM, one claims the same wrong work again and again. After the last
    attempt, it waits for a person; the answer gives it another one."""
    project.plan(
        task("deaf", do="deaf", timeout=2),
        task("liar", do="wrong"),
        task("good"),
        attempts=1,
        swarm="s",
    )
    run = project.start()
    with project.running_client() as client:
        wait_until(lambda: "liar: blocked: " in project.log(), "liar waits", 60)
        wait_until(lambda: "good: landed" in project.log(), "good has landed", 60)
        (project.marks / "liar.fixed").touch()
        client.post("/bus/answer_question", {"swarm_id": "s", "question_id": 1, "answer": "now"})
    outcome = run.outcome()
    assert (sorted(outcome["landed"]), outcome["failed"]) == (["good", "liar"], ["deaf"])
    assert not psutil.pid_exists(project.wait_for_agent("deaf.1"))
    assert "liar: refused 3 times" in project.log()
    assert sorted(project.landed()) == ["Add good", "Add liar", "First"], "not what was refused"
    prompts = (project.folder / ".shiftboss" / "runs" / "s").glob("liar.2/prompt.md")
    assert "A PERSON SAYS: now" in next(prompts).read_text()
    assert project.worktrees == []


def test_a_server_that_dies_is_restarted(project: PlanProject) -> None:
    project.plan(task("slow", do="hang"), task("last", "slow"))
    run = project.start()
    agent = project.wait_for_agent("slow.1")
    (server,) = [
        child.pid for child in psutil.Process(run.pid).children() if "serve" in child.cmdline()
    ]
    os.kill(server, signal.SIGKILL)
    os.kill(agent, signal.SIGKILL)
    assert sorted(run.outcome()["landed"]) == ["last", "slow"]


def test_a_stale_lock_left_by_a_killed_git_is_removed(project: PlanProject) -> None:
    """Left by an agent that is killed during a commit."""
    project.plan(task("slow", do="hang"))
    run = project.start()
    agent = project.wait_for_agent("slow.1")
    (project.repo / ".git" / "refs" / "heads" / "shiftboss" / "slow.lock").touch()
    os.kill(agent, signal.SIGKILL)
    assert run.outcome()["landed"] == ["slow"]
    wait_until(lambda: project.worktrees == [], "its work tree is gone", 30)
