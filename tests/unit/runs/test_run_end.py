"""When a run is over: a change between two reads of the server must not be missed."""

from __future__ import annotations

import pytest

from shiftboss.orchestrator.run.plan_run import RunOutcome, is_over, landing_outcome_of
from shiftboss.orchestrator.run.plan_status import PlanStatus
from shiftboss.orchestrator.run.progress import Progress

pytestmark = pytest.mark.requirement("OWN-01")


def plan_status(**tasks: tuple[str, int]) -> PlanStatus:
    views = {
        name: {"bead_id": name, "status": status, "failures": failures}
        for name, (status, failures) in tasks.items()
    }
    return PlanStatus(views, {}, {})


STUCK = RunOutcome(
    done=False,
    failed=["bad"],
    waiting=["good", "after"],
    stuck={"after": "depends on bad, which was given up"},
)


def test_a_run_is_over_when_all_remaining_tasks_depend_on_a_failed_one() -> None:
    idle = plan_status(bad=("failed", 2), good=("open", 0), after=("open", 0))
    assert is_over(STUCK, idle, idle)
    assert not is_over(RunOutcome(done=False, waiting=["good"]), idle, idle)


@pytest.mark.parametrize("now", [("done", 0), ("failed", 1), ("active", 0)])
def test_a_run_is_not_over_if_a_task_has_ended_meanwhile(now: tuple[str, int]) -> None:
    """The task has to land or to be tried again, but the outcome lists it as waiting."""
    before = plan_status(bad=("failed", 2), good=("active", 0), after=("open", 0))
    assert not is_over(STUCK, before, plan_status(bad=("failed", 2), good=now, after=("open", 0)))


def test_a_finished_run_is_over_regardless_of_later_changes() -> None:
    before = plan_status(good=("done", 0))
    assert is_over(RunOutcome(done=True, landed=["good"]), before, plan_status(good=("active", 0)))


HELD = RunOutcome(
    done=False, waiting=["asks"], held=["asks"], stuck={"asks": "question 1: which colour?"}
)


@pytest.mark.requirement("OWN-12")
def test_a_run_stays_while_a_task_waits_for_a_person_unless_it_is_told_not_to() -> None:
    idle = plan_status(asks=("queued", 0))._replace(held={"asks": "question 1: which colour?"})
    assert not is_over(HELD, idle, idle)
    assert is_over(HELD, idle, idle, wait=False)


@pytest.mark.requirement("OWN-12")
def test_a_cancelled_task_keeps_nothing_waiting() -> None:
    idle = plan_status(gone=("cancelled", 0), other=("open", 0))
    cancelled = RunOutcome(done=False, cancelled=["gone"], stuck={"gone": "cancelled"})
    assert is_over(cancelled, idle, idle)
    cancelled.waiting = ["other"]
    assert not is_over(cancelled, idle, idle), "the other one can still start"


@pytest.mark.requirement("OWN-12")
def test_a_stopped_run_says_what_its_tasks_wait_for() -> None:
    progress = Progress()
    progress.stage("asks", "blocked", "question 1: which colour?")
    progress.stage("works", "working", "claude, round 1")
    outcome = RunOutcome.of_stopped(progress)
    assert outcome.waiting == ["asks", "works"]
    assert outcome.stuck == {"asks": "question 1: which colour?"}


@pytest.mark.requirement("OWN-12")
def test_land_tells_cancelled_work_and_work_in_review_from_work_that_cannot_land() -> None:
    status = plan_status(gone=("cancelled", 0), new=("done", 0), bad=("done", 0), off=("open", 0))
    status.views["gone"]["last_error"] = "rethink"
    status.views["new"]["review"] = {"state": "open"}
    status = status._replace(landable={"new": {}, "bad": {}}, held={"new": "shiftboss approve new"})
    outcome = landing_outcome_of(["gone", "new", "bad", "off"], "s", status, {"bad": "conflict"})
    assert (outcome.cancelled, outcome.failed) == (["gone"], ["bad"])
    assert (outcome.waiting, outcome.held) == (["new", "off"], ["new"])
    assert not outcome.done
    assert outcome.stuck["new"] == "shiftboss approve new"
    assert outcome.stuck["off"] == "not accepted yet (shiftboss why off --swarm s)"
    assert landing_outcome_of(["off"], "s", status, {}).done
    assert not landing_outcome_of(["off"], "s", status, {}, are_named=True).done
    assert "rethink" in outcome.stuck["gone"]
    assert "shiftboss task retry gone --swarm s" in outcome.stuck["gone"]
