"""`shiftboss run`, from a plan to landed commits: real processes, real git, a scripted agent."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.commands import shiftboss
from tests.plan_runs import PlanProject, task
from tests.waiting import wait_until


@pytest.fixture
def project(tmp_path: Path) -> PlanProject:
    return PlanProject(tmp_path)


def is_gone(pid: int) -> Callable[[], bool]:
    return lambda: not Path("/proc", str(pid)).exists()


@pytest.mark.requirement("OWN-01", "OWN-03", "OWN-18")
def test_a_plan_lands_in_the_order_of_its_dependencies(project: PlanProject) -> None:
    reads = task("look", do="read", files_owned=[])
    project.plan(task("one"), task("two"), task("three", "one", "two"), reads, swarm="sums")
    outcome = project.run()
    assert sorted(outcome["landed"]) == ["look", "one", "three", "two"]
    assert sorted(project.landed()[1:3]) == ["Add one", "Add two"]
    assert project.landed()[3] == "Add three"
    assert (project.repo / "three.py").exists(), "the files of the checked-out target are updated"
    assert project.worktrees == []
    assert project.git("branch", "--list", "shiftboss/*") == ""
    shown = shiftboss("status", "sums", folder=project.folder)
    assert re.search(r"^status +complete$", shown.out, re.MULTILINE), shown.out
    assert re.search(r"^completed +\S", shown.out, re.MULTILINE), "its server has ended with it"
    tip = project.git("rev-parse", "main")
    assert project.run()["done"], "a second run has nothing to do"
    assert project.git("rev-parse", "main") == tip
    notes = project.noted_receipts()
    assert {subject: noted[0].receipt.bead_id for subject, noted in notes.items()} == {
        "Add one": "one",
        "Add two": "two",
        "Add three": "three",
    }, "a task that only reads has no commit to note"
    assert "its receipt is not" not in project.log()


@pytest.mark.requirement("OWN-01", "WP-06", "HO-10")
def test_failures_during_a_run_are_noticed_and_fixed(project: PlanProject) -> None:
    """One crashes, one fills its context, one edits out of scope, one lies: everything lands."""
    project.plan(
        task("crasher", do="crash"),
        task("filler", do="fill", files_owned=["filler.py", "test_filler.py", "left.txt"]),
        task("strayer", do="stray"),
        task("liar", do="lie"),
    )
    outcome = project.run()
    assert sorted(outcome["landed"]) == ["crasher", "filler", "liar", "strayer"], outcome
    assert (project.marks / "strayer.hook").read_text() == "1", "the commit hook refused"
    assert not (project.repo / "foreign.py").exists()
    assert (project.repo / "left.txt").read_text() == "not committed yet\n", "handed over as well"
    assert "Begin" in project.landed(), "the commits of the agent with the full context"
    refs = project.git("for-each-ref", "--format=%(refname)", "refs/shiftboss/salvage/crasher")
    assert refs, "the commits of the crashed agent are kept"


@pytest.mark.requirement("OWN-01", "CC-11")
def test_a_killed_run_continues_when_it_is_started_again(project: PlanProject) -> None:
    project.plan(task("quick"), task("slow", do="hang"), task("last", "quick", "slow"))
    first = project.start()
    agent = project.wait_for_agent("slow.1")
    wait_until(lambda: "Add quick" in project.landed(), "the quick one has landed", 60)
    first.stop()
    wait_until(is_gone(agent), "the agent of the killed run is gone", 30)
    outcome = project.run()
    assert sorted(outcome["landed"]) == ["last", "quick", "slow"]
    assert project.landed().count("Add quick") == 1
    assert project.worktrees == []


@pytest.mark.requirement("OWN-01")
def test_a_signal_returns_all_tasks(project: PlanProject) -> None:
    """Not to the idle worker, which ends as well."""
    project.plan(task("slow", do="hang"), swarm="s")
    first = project.start()
    agent = project.wait_for_agent("slow.1")
    first.stop(signal.SIGTERM)
    wait_until(is_gone(agent), "the agent is gone", 30)
    assert project.worktrees == []
    with project.client_after_run() as client:
        owned = client.post("/bus/who_owns", {"repo": str(project.repo)}).json()
        assert owned["holders"] == [], "other plans can have its files"
        (left,) = client.post("/bus/list_tasks", {"swarm_id": "s"}).json()["tasks"]
        assert (left["status"], left["epoch"]) == ("queued", 1), "it was not offered in between"
    assert project.run()["landed"] == ["slow"]


@pytest.mark.requirement("OWN-01")
def test_a_killed_agent_is_replaced(project: PlanProject) -> None:
    project.plan(task("slow", do="hang"))
    run = project.start()
    os.kill(project.wait_for_agent("slow.1"), signal.SIGKILL)
    assert run.outcome()["landed"] == ["slow"]


@pytest.mark.requirement("OWN-01")
def test_work_that_no_longer_merges_goes_back_to_a_worker(project: PlanProject) -> None:
    both = {"description": "DO: shared"}
    project.plan(
        {**task("left"), **both, "files_owned": ["left.py", "test_left.py", "shared.txt"]},
        {**task("right"), **both, "files_owned": ["right.py", "test_right.py", "shared.txt"]},
        auto_merge=False,
        workers=1,
    )
    # Both start from the same base only when the first has not landed.
    accepted = project.run()
    assert accepted["accepted"] == ["left", "right"]
    assert project.landed() == ["First"]
    outcome = project.run("--auto-merge")
    assert sorted(outcome["landed"]) == ["left", "right"], outcome
    assert sorted((project.repo / "shared.txt").read_text().split()) == ["left", "right"]


@pytest.mark.requirement("OWN-01", "OWN-18")
def test_landing_can_wait_for_the_land_command(project: PlanProject) -> None:
    project.plan(task("one"), task("two", "one"), auto_merge=False, landing="squash")
    assert project.run()["accepted"] == ["one", "two"]
    assert project.landed() == ["First"]
    (project.repo / "one.py").write_text("in the way\n")
    refused = project.run(command="land")
    assert not refused["done"]
    assert "one.py" in str(refused["stuck"])
    (project.repo / "one.py").unlink()
    project.git("update-ref", "refs/notes/shiftboss/in-the-way", "main")
    outcome = project.run(command="land")
    assert sorted(outcome["landed"]) == ["one", "two"], "also if the receipts cannot be noted"
    assert project.landed() == ["First", "Add one", "Add two"]
    project.git("update-ref", "-d", "refs/notes/shiftboss/in-the-way")
    assert sorted(outcome["warnings"]) == ["one", "two"]
    for warning in outcome["warnings"].values():
        command = warning.rpartition("(shiftboss ")[2].removesuffix(")").split()
        repaired = shiftboss(*command, folder=project.folder)
        assert repaired.code == 0, repaired
    notes = project.noted_receipts()
    assert sorted(notes) == ["Add one", "Add two"]
    for (noted,) in notes.values():
        assert noted.landing is not None
        assert noted.receipt.commit == noted.landing.commit != noted.landing.landed_as


@pytest.mark.requirement("OWN-07")
def test_a_quota_parks_the_work_until_it_renews(project: PlanProject) -> None:
    project.plan(task("poor", do="quota"))
    assert project.run()["landed"] == ["poor"]


@pytest.mark.requirement("OWN-07")
def test_an_exhausted_budget_ends_a_run_that_does_not_wait(project: PlanProject) -> None:
    project.plan(task("dear", do="spend", budget={"tokens": 5000}), task("cheap"))
    outcome = project.run("--no-wait")
    assert outcome["landed"] == ["cheap"]
    assert "shiftboss budget set --swarm" in outcome["stuck"]["dear"]


@pytest.mark.requirement("CC-07")
def test_the_second_denial_in_a_row_ends_the_attempt(project: PlanProject) -> None:
    project.plan(task("barred", do="denied"))
    outcome = project.run("--no-wait")
    assert outcome["landed"] == []
    assert "BLOCKED_PERMISSION: Bash" in str(outcome["stuck"]["barred"])


@pytest.mark.requirement("OWN-01")
def test_a_task_that_keeps_failing_ends_the_run(project: PlanProject) -> None:
    project.plan(task("bad", do="error"), task("after", "bad"), task("good"), attempts=2)
    outcome = project.run()
    assert outcome["landed"] == ["good"]
    assert outcome["failed"] == ["bad"]
    assert outcome["stuck"] == {"after": "depends on bad, which was given up"}
    assert project.run()["failed"] == ["bad"], "a second run does not try it again"
    (project.marks / "bad.fixed").touch()
    assert sorted(project.run("--retry")["landed"]) == ["after", "bad", "good"]


@pytest.mark.requirement("OWN-01")
def test_a_plan_can_grow_and_shrink_between_runs(project: PlanProject) -> None:
    project.plan(task("one"), task("two", "one"))
    assert sorted(project.run()["landed"]) == ["one", "two"]
    project.plan({**task("one"), "title": "Another title"}, task("three", "one", complexity="high"))
    assert sorted(project.run()["landed"]) == ["one", "three"]
    assert project.landed().count("Add one") == 1


@pytest.mark.requirement("OWN-01", "OWN-12")
def test_a_question_ends_a_run_that_does_not_wait(project: PlanProject) -> None:
    """The answer is given later; the next run continues, and the work lands."""
    project.plan(task("unsure", do="ask"), task("sure"), swarm="ask", attempts=1)
    outcome = project.run("--no-wait")
    assert outcome["landed"] == ["sure"]
    assert outcome["held"] == ["unsure"]
    command = "shiftboss questions answer 1 'your answer' --swarm ask"
    assert f"asks question 1: which colour? ({command})" in outcome["stuck"]["unsure"]
    with project.client_after_run() as client:
        answer = {"swarm_id": "ask", "question_id": 1, "answer": "blue"}
        assert client.post("/bus/answer_question", answer).status_code == 200
    assert sorted(project.run("--no-wait")["landed"]) == ["sure", "unsure"]


@pytest.mark.requirement("OWN-01")
def test_work_that_was_removed_from_its_branch_lands_again(project: PlanProject) -> None:
    project.plan(task("one"))
    assert project.run()["landed"] == ["one"]
    project.git("reset", "--quiet", "--hard", "HEAD~1")
    assert project.landed() == ["First"]
    assert project.run()["landed"] == ["one"]
    assert project.landed() == ["First", "Add one"]


@pytest.mark.requirement("OWN-01")
def test_work_of_another_swarm_is_not_landed_again(project: PlanProject) -> None:
    """A task of the same name, which the owner has reverted, stays reverted."""
    project.plan(task("one"), swarm="first")
    assert project.run()["landed"] == ["one"]
    project.git("reset", "--quiet", "--hard", "HEAD~1")
    project.plan(task("one"), swarm="second")
    assert project.run()["landed"] == ["one"]
    assert project.landed() == ["First", "Add one"]
