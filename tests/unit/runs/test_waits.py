"""The lines that say what a task waits for end with a command that helps."""

from __future__ import annotations

import pytest

from shiftboss.errors import OwnershipOverlap
from shiftboss.rules.runs.waits import (
    cancelled_dependency_text,
    hold_text,
    question_text,
    refusal_text,
    review_text,
)

pytestmark = pytest.mark.requirement("OWN-11")


def hold(kind: str, reason: str, bead_id: str | None = None) -> dict[str, object]:
    return {"kind": kind, "reason": reason, "bead_id": bead_id}


def test_a_hold_names_the_command_that_lifts_it() -> None:
    assert "(resume it: shiftboss swarm resume s)" in hold_text(hold("pause", "lunch"), "s")
    assert "shiftboss swarm resume s --task t" in hold_text(hold("pause", "lunch", "t"), "s")
    tokens = hold_text(hold("budget", "the budget of 5000 tokens is used up", "t"), "s")
    assert tokens.endswith("(raise it: shiftboss budget set --swarm s --task t --tokens N)")
    dollars = hold_text(hold("budget", "the budget of 5 dollars is used up"), "s")
    assert dollars.endswith("(raise it: shiftboss budget set --swarm s --dollars X)")


def test_a_question_shows_its_first_line_and_how_to_answer_it() -> None:
    text = question_text({"question_id": 3, "question": "which colour?\nred or blue"}, "s")
    assert text.startswith("question 3: which colour? (answer it: ")
    assert text.endswith("shiftboss questions answer 3 TEXT --swarm s)")


def test_a_task_behind_a_cancelled_one_names_both_ways_out() -> None:
    text = cancelled_dependency_text("after", "gone", "s")
    assert "shiftboss task cancel after --swarm s" in text
    assert "shiftboss task retry gone --swarm s" in text


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


def test_a_review_names_both_decisions() -> None:
    text = review_text("t", "a" * 40, "s")
    assert "shiftboss approve t --swarm s" in text
    assert "shiftboss reject t --reason TEXT --swarm s" in text
