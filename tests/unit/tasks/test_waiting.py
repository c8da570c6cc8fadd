"""What waits is said in one sentence, with commands that work as they are printed."""

from __future__ import annotations

import shlex

import pytest

from shiftboss.errors import OwnershipOverlap
from shiftboss.rules.handoffs.handoffs import ScopeRequest
from shiftboss.rules.runs.records import BudgetRecord, Hold, Totals
from shiftboss.rules.tasks.waiting import (
    Holder,
    Reason,
    cancelled_reason,
    dependency_reason,
    hold_reason,
    holder_reason,
    reason_line,
    refusal_text,
    review_reason,
    scope_reason,
    short_text,
)

pytestmark = pytest.mark.requirement("OWN-11")
BUDGET = Hold("s", "t", "budget", "the budget is used up", 0, None)


@pytest.mark.parametrize(
    ("budget", "used", "limits"),
    [
        (BudgetRecord("s", "t", 100, None), Totals(101), "--tokens 202"),
        (BudgetRecord("s", "t", 100, None), Totals(1000), "--tokens 2000"),
        (BudgetRecord("s", "t", 100, 5_000_000), Totals(50), "--tokens 200 --dollars 10"),
        (BudgetRecord("s", "t", 100, 5_000_000), Totals(150), "--tokens 300 --dollars 5"),
        (
            BudgetRecord("s", "t", 100, 5_000_000),
            Totals(50, microdollars=6_000_000),
            "--tokens 100 --dollars 12",
        ),
        (
            BudgetRecord("s", "t", None, 10),
            Totals(50, microdollars=1_500_000),
            "--dollars 3",
        ),
        (BudgetRecord("s", "t", None, 1), Totals(), "--dollars 0.000002"),
        (None, Totals(70), "--tokens 140"),
    ],
)
def test_a_budget_is_raised_above_what_was_used_and_keeps_its_other_limit(
    budget: BudgetRecord | None, used: Totals, limits: str
) -> None:
    command = hold_reason(BUDGET, budget, used).command
    assert command == f"shiftboss budget set --swarm s --task t {limits}"


def test_a_budget_is_shown_with_what_is_used_now() -> None:
    """Workers finish what they are doing, so more is used than when it was exceeded."""
    stored = Hold(
        "s", "", "budget", "the budget of the swarm is used up: 100 of 100 tokens", 0, None
    )
    later = hold_reason(stored, BudgetRecord("s", "", 100, None), Totals(900, 200))
    assert later.text == "the budget of the swarm is used up: 1,100 of 100 tokens"


def test_a_pause_says_when_it_ends_by_itself() -> None:
    lunch = hold_reason(Hold("s", "", "pause", "lunch", 0, None))
    assert (lunch.command, lunch.until_ms) == ("shiftboss swarm resume s", None)
    assert hold_reason(Hold("s", "t", "pause", "quota", 0, 9)).until_ms == 9


def test_a_request_for_files_is_decided_and_not_answered() -> None:
    asked = ScopeRequest("s", 2, "t", 1, "w", ["a"], "needed", "open", 0, None, None, 7)
    reason = scope_reason(asked)
    assert reason.command == "shiftboss scope grant 2 --swarm s"
    assert reason.also == ("shiftboss scope refuse 2 --swarm s",)
    assert reason.question_id == 7


def test_a_task_behind_a_cancelled_one_names_both_ways_out() -> None:
    line = reason_line(dependency_reason("s", "after", "gone", "cancelled"))
    assert line == (
        "it waits for gone, which is cancelled (shiftboss task cancel after --swarm s; or: "
        "shiftboss task retry gone --swarm s)"
    )


def test_a_task_of_another_swarm_in_the_way_is_named_with_the_command_that_frees_it() -> None:
    overlap = OwnershipOverlap(
        "t would own files of other tasks: old of the swarm gone (queued) owns a.py; "
        "nothing was changed",
        hint="or free its files: `shiftboss task cancel old --swarm gone`",
        facts={"holders": [{"swarm_id": "gone", "bead_id": "old"}]},
    )
    text = refusal_text(overlap, "s")
    assert "old of the swarm gone (queued) owns a.py (or free its files" in text
    assert "shiftboss task cancel old --swarm gone" in text
    assert "nothing was changed" not in text
    assert "cancel" not in refusal_text(overlap, "gone"), "its own run finishes it"


def test_a_task_of_another_swarm_that_is_worked_on_can_be_cancelled() -> None:
    """Its run may have been killed, so that nobody will finish it."""
    foreign = holder_reason("s", "t", Holder("o", "x", "src/", "active"))
    assert (foreign.command, *foreign.also) == (
        "shiftboss why x --swarm o",
        "shiftboss task cancel x --swarm o",
    )
    assert holder_reason("o", "t", Holder("o", "x", "src/", "active")).also == ()


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("The reasons:\n- exit code 1\n- a - b\n", "The reasons: exit code 1; a - b"),
        ("Which colour?\n\n  Red,\n or blue", "Which colour? Red, or blue"),
    ],
)
def test_the_items_of_a_list_stay_apart_in_one_line(text: str, line: str) -> None:
    assert short_text(text) == line


@pytest.mark.parametrize(
    "reason", [review_reason("s", "t", "a" * 40), cancelled_reason("s", "t", "no time")]
)
def test_commands_name_the_swarm_and_have_no_placeholders(reason: Reason) -> None:
    for command in (reason.command or "", *reason.also):
        words = shlex.split(command)
        assert words[0] == "shiftboss"
        assert words[words.index("--swarm") + 1] == "s"
        assert not any(word.isupper() for word in words)
