"""When a run is over: a change between two reads of the server must not be missed."""

from __future__ import annotations

import pytest

from shiftboss.orchestrator.run.plan_run import RunOutcome, is_over
from shiftboss.orchestrator.run.plan_status import PlanStatus

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
