"""`shiftboss run`, from a plan to landed commits: real processes, real git, an agent of our own."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.plan_runs import PlanRoom, task
from tests.waiting import wait_until


@pytest.fixture
def room(tmp_path: Path) -> PlanRoom:
    return PlanRoom(tmp_path)


def is_gone(pid: int) -> Callable[[], bool]:
    return lambda: not Path("/proc", str(pid)).exists()


@pytest.mark.requirement("OWN-01", "OWN-03")
def test_a_plan_lands_in_the_order_of_its_dependencies(room: PlanRoom) -> None:
    room.plan(task("one"), task("two"), task("three", "one", "two"))
    outcome = room.run()
    assert sorted(outcome["landed"]) == ["one", "three", "two"]
    assert sorted(room.landed()[1:3]) == ["Add one", "Add two"]
    assert room.landed()[3] == "Add three"
    assert (room.repo / "three.py").exists(), "the files of the checked out target follow"
    assert room.work_trees == []
    assert room.git("branch", "--list", "shiftboss/*") == ""
    tip = room.git("rev-parse", "main")
    assert room.run()["done"], "run again, it has nothing to do"
    assert room.git("rev-parse", "main") == tip


@pytest.mark.requirement("OWN-01", "WP-06", "HO-10")
def test_what_goes_wrong_on_the_way_is_noticed_and_mended(room: PlanRoom) -> None:
    """One crashes, one fills its context, one strays, one lies: all of it lands in the end."""
    room.plan(
        task("crasher", do="crash"),
        task("filler", do="fill", files_owned=["filler.py", "test_filler.py", "left.txt"]),
        task("strayer", do="stray"),
        task("liar", do="lie"),
    )
    outcome = room.run()
    assert sorted(outcome["landed"]) == ["crasher", "filler", "liar", "strayer"], outcome
    assert (room.marks / "strayer.hook").read_text() == "1", "the commit hook refused"
    assert not (room.repo / "foreign.py").exists()
    assert (room.repo / "left.txt").read_text() == "not committed yet\n", "handed over, too"
    assert "Begin" in room.landed(), "the commits of the one with the full context"
    kept = room.git("for-each-ref", "--format=%(refname)", "refs/shiftboss/salvage/crasher")
    assert kept, "what the crashed one had committed is kept"


@pytest.mark.requirement("OWN-01", "CC-11")
def test_killed_and_run_again_it_goes_on(room: PlanRoom) -> None:
    room.plan(task("quick"), task("slow", do="hang"), task("last", "quick", "slow"))
    first = room.start()
    agent = room.waits("slow.1")
    wait_until(lambda: "Add quick" in room.landed(), "the quick one has landed", 60)
    first.stop()
    wait_until(is_gone(agent), "the agent of the killed run is gone", 30)
    outcome = room.run()
    assert sorted(outcome["landed"]) == ["last", "quick", "slow"]
    assert room.landed().count("Add quick") == 1
    assert room.work_trees == []


@pytest.mark.requirement("OWN-01")
def test_a_signal_gives_everything_back(room: PlanRoom) -> None:
    room.plan(task("slow", do="hang"))
    first = room.start()
    agent = room.waits("slow.1")
    first.stop(signal.SIGTERM)
    wait_until(is_gone(agent), "the agent is gone", 30)
    assert room.work_trees == []
    assert room.run()["landed"] == ["slow"]


@pytest.mark.requirement("OWN-01")
def test_an_agent_that_is_killed_is_followed_by_another(room: PlanRoom) -> None:
    room.plan(task("slow", do="hang"))
    run = room.start()
    os.kill(room.waits("slow.1"), signal.SIGKILL)
    assert run.outcome()["landed"] == ["slow"]


@pytest.mark.requirement("OWN-01")
def test_work_that_does_not_fit_any_more_goes_back_to_a_worker(room: PlanRoom) -> None:
    both = {"description": "DO: shared"}
    room.plan(
        {**task("left"), **both, "files_owned": ["left.py", "test_left.py", "shared.txt"]},
        {**task("right"), **both, "files_owned": ["right.py", "test_right.py", "shared.txt"]},
        auto_merge=False,
        workers=1,
    )
    # Both start from the same base only when the first has not landed.
    accepted = room.run()
    assert accepted["accepted"] == ["left", "right"]
    assert room.landed() == ["First"]
    outcome = room.run("--auto-merge")
    assert sorted(outcome["landed"]) == ["left", "right"], outcome
    assert sorted((room.repo / "shared.txt").read_text().split()) == ["left", "right"]


@pytest.mark.requirement("OWN-01")
def test_landing_can_wait_for_a_word(room: PlanRoom) -> None:
    room.plan(task("one"), task("two", "one"), auto_merge=False)
    assert room.run()["accepted"] == ["one", "two"]
    assert room.landed() == ["First"]
    (room.repo / "one.py").write_text("in the way\n")
    refused = room.run(command="land")
    assert not refused["done"]
    assert "one.py" in str(refused["stuck"])
    (room.repo / "one.py").unlink()
    assert sorted(room.run(command="land")["landed"]) == ["one", "two"]
    assert room.landed() == ["First", "Add one", "Add two"]


@pytest.mark.requirement("OWN-07")
def test_a_quota_parks_the_work_until_its_time(room: PlanRoom) -> None:
    room.plan(task("poor", do="quota"))
    assert room.run()["landed"] == ["poor"]


@pytest.mark.requirement("OWN-07")
def test_a_budget_that_is_used_up_ends_the_run(room: PlanRoom) -> None:
    room.plan(task("dear", do="spend", budget={"tokens": 5000}), task("cheap"))
    outcome = room.run()
    assert outcome["landed"] == ["cheap"]
    assert "budget" in str(outcome["stuck"]["dear"])


@pytest.mark.requirement("CC-07")
def test_the_second_denial_in_a_row_is_the_last(room: PlanRoom) -> None:
    room.plan(task("barred", do="denied"))
    outcome = room.run()
    assert outcome["landed"] == []
    assert "BLOCKED_PERMISSION: Bash" in str(outcome["stuck"]["barred"])


@pytest.mark.requirement("OWN-01")
def test_a_task_that_fails_again_and_again_ends_the_run(room: PlanRoom) -> None:
    room.plan(task("bad", do="error"), task("after", "bad"), task("good"), attempts=2)
    outcome = room.run()
    assert outcome["landed"] == ["good"]
    assert outcome["failed"] == ["bad"]
    assert outcome["stuck"] == {"after": "depends on bad, which was given up"}
    assert room.run()["failed"] == ["bad"], "run again, it is not tried again"
    (room.marks / "bad.mended").touch()
    assert sorted(room.run("--retry")["landed"]) == ["after", "bad", "good"]


@pytest.mark.requirement("OWN-01")
def test_a_plan_may_grow_and_shrink_between_runs(room: PlanRoom) -> None:
    room.plan(task("one"), task("two", "one"))
    assert sorted(room.run()["landed"]) == ["one", "two"]
    room.plan({**task("one"), "title": "Another title"}, task("three", "one", complexity="high"))
    assert sorted(room.run()["landed"]) == ["one", "three"]
    assert room.landed().count("Add one") == 1


@pytest.mark.requirement("OWN-01")
def test_a_question_of_an_agent_ends_a_run_that_has_nothing_else_to_do(room: PlanRoom) -> None:
    room.plan(task("unsure", do="ask"), task("sure"))
    outcome = room.run()
    assert outcome["landed"] == ["sure"]
    assert "which colour?" in outcome["stuck"]["unsure"]
    assert "shiftboss questions answer" in outcome["stuck"]["unsure"]


@pytest.mark.requirement("OWN-01")
def test_work_that_was_thrown_off_its_branch_is_landed_again(room: PlanRoom) -> None:
    room.plan(task("one"))
    assert room.run()["landed"] == ["one"]
    room.git("reset", "--quiet", "--hard", "HEAD~1")
    assert room.landed() == ["First"]
    assert room.run()["landed"] == ["one"]
    assert room.landed() == ["First", "Add one"]


@pytest.mark.requirement("OWN-01")
def test_what_another_swarm_has_landed_is_its_own_affair(room: PlanRoom) -> None:
    """A task of the same name, which the owner has taken back, stays taken back."""
    room.plan(task("one"), swarm="first")
    assert room.run()["landed"] == ["one"]
    room.git("reset", "--quiet", "--hard", "HEAD~1")
    room.plan(task("one"), swarm="second")
    assert room.run()["landed"] == ["one"]
    assert room.landed() == ["First", "Add one"]
