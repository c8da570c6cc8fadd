"""When a run is over: what happens between two looks at the server must not be missed."""

from __future__ import annotations

import pytest

from shiftboss.orchestrator.run.plan_run import RunOutcome, is_over
from shiftboss.orchestrator.run.plan_status import PlanStatus

pytestmark = pytest.mark.requirement("OWN-01")


def book(**tasks: tuple[str, int]) -> PlanStatus:
    views = {
        name: {"bead_id": name, "status": status, "failures": failures}
        for name, (status, failures) in tasks.items()
    }
    return PlanStatus(views, {}, {})


STUCK = RunOutcome(
    done=False, failed=["bad"], waiting=["good", "after"], stuck={"after": "needs bad"}
)


def test_it_is_over_when_nobody_works_and_the_rest_waits_for_what_was_given_up() -> None:
    quiet = book(bad=("failed", 2), good=("open", 0), after=("open", 0))
    assert is_over(STUCK, quiet, quiet)
    assert not is_over(RunOutcome(done=False, waiting=["good"]), quiet, quiet)


@pytest.mark.parametrize("now", [("done", 0), ("failed", 1), ("active", 0)])
def test_it_is_not_over_when_a_task_has_ended_since(now: tuple[str, int]) -> None:
    """It has to land, or to be tried again; the outcome knows it as one that waits."""
    before = book(bad=("failed", 2), good=("active", 0), after=("open", 0))
    assert not is_over(STUCK, before, book(bad=("failed", 2), good=now, after=("open", 0)))


def test_what_is_done_is_over_whatever_comes_later() -> None:
    before = book(good=("done", 0))
    assert is_over(RunOutcome(done=True, landed=["good"]), before, book(good=("active", 0)))
