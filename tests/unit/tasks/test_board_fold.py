"""The board at any event: what people see of a task, from the events alone."""

from __future__ import annotations

import json
from typing import Any

import pytest

from shiftboss.protocol.events import Event, EventKind
from shiftboss.rules.tasks.board_fold import FoldedBoard
from shiftboss.rules.tasks.folded_columns import column_of, columns_of, counts_of

pytestmark = pytest.mark.requirement("OWN-04")

ToldEvent = tuple[EventKind, dict[str, Any]]

ADDED: ToldEvent = (EventKind.TASK_ADDED, {"title": "Log in", "depends_on": [], "priority": 0})
SPAWNED: ToldEvent = (EventKind.HANDOFF_SPAWNED, {"contract_version": 1})
ASSIGNED: ToldEvent = (EventKind.TASK_ASSIGNED, {"worker": "w", "epoch": 1})
STARTED: ToldEvent = (
    EventKind.TASK_STARTED,
    {"worker": "w", "epoch": 1, "lease_expires_at": 5, "state": "executing"},
)
CLAIMED: ToldEvent = (EventKind.CLAIM_MADE, {"worker": "w", "epoch": 1, "claim_id": 1})
REFUSED: ToldEvent = (EventKind.CLAIM_REFUSED, {"epoch": 1, "claim_id": 1, "state": "executing"})
ACCEPTED: ToldEvent = (EventKind.CLAIM_ACCEPTED, {"epoch": 1, "claim_id": 1, "commit": "c1"})
DONE: ToldEvent = (EventKind.TASK_DONE, {"worker": "w", "epoch": 1})
ENDED: ToldEvent = (EventKind.ATTEMPT_ENDED, {"worker": "w", "epoch": 1, "reason": "reset"})
FAILED: ToldEvent = (EventKind.TASK_FAILED, {"worker": "w", "epoch": 1, "failures": 1})
QUEUED: ToldEvent = (EventKind.TASK_QUEUED, {"priority": 0})
QUESTION = {"worker": "w", "epoch": 1, "question_id": 7, "blocks": True, "dispute": None}
ASKED: ToldEvent = (EventKind.QUESTION_ASKED, QUESTION)
ANSWERED: ToldEvent = (
    EventKind.QUESTION_ANSWERED,
    {"worker": "w", "epoch": 1, "question_id": 7, "continues": True},
)
ACTIVE = (ADDED, SPAWNED, ASSIGNED, STARTED)


def board_after(*events: ToldEvent) -> FoldedBoard:
    board = FoldedBoard()
    for number, (kind, data) in enumerate(events, start=1):
        text = json.dumps({"bead_id": "t", **data})
        board.apply(Event("s", number, kind.value, number, text))
    return board


def column_after(*events: ToldEvent, lands: bool = True) -> str:
    return column_of(board_after(*events), "t", lands=lands)


def test_a_task_goes_through_the_columns() -> None:
    assert column_after(ADDED) == "waiting"
    assert column_after(*ACTIVE) == "running"
    assert column_after(*ACTIVE, CLAIMED) == "verifying"
    assert column_after(*ACTIVE, CLAIMED, REFUSED) == "running"
    assert column_after(*ACTIVE, CLAIMED, ACCEPTED, DONE) == "accepted"
    assert column_after(*ACTIVE, CLAIMED, ACCEPTED, DONE, lands=False) == "done"
    landed: ToldEvent = (EventKind.TASK_LANDED, {"landed_commit": "c2"})
    assert column_after(*ACTIVE, CLAIMED, ACCEPTED, DONE, landed) == "done"
    assert column_after(*ACTIVE, FAILED) == "failed"
    assert column_after(ADDED, (EventKind.TASK_CANCELLED, {})) == "done"


def test_what_waits_for_a_person_needs_you() -> None:
    assert column_after(*ACTIVE, ASKED) == "needs_you"
    assert column_after(*ACTIVE, ASKED, ANSWERED) == "running"
    review: ToldEvent = (EventKind.REVIEW_REQUESTED, {})
    assert column_after(*ACTIVE, CLAIMED, ACCEPTED, review, DONE) == "needs_you"
    approved: ToldEvent = (EventKind.REVIEW_APPROVED, {})
    assert column_after(*ACTIVE, CLAIMED, ACCEPTED, review, DONE, approved) == "accepted"
    escalated: ToldEvent = (EventKind.CLAIM_ESCALATED, {"epoch": 1, "claim_id": 1})
    assert column_after(*ACTIVE, CLAIMED, escalated) == "needs_you"
    retried: ToldEvent = (EventKind.CLAIM_RETRIED, {"epoch": 1, "claim_id": 1})
    assert column_after(*ACTIVE, CLAIMED, escalated, retried) == "verifying"
    budget: ToldEvent = (EventKind.BUDGET_EXCEEDED, {"scope": "task"})
    assert column_after(*ACTIVE, budget) == "needs_you"
    raised: ToldEvent = (EventKind.DISPATCH_RESUMED, {"kind": "budget"})
    assert column_after(*ACTIVE, budget, raised) == "running"


def test_rejected_work_is_neither_accepted_nor_landed() -> None:
    review: ToldEvent = (EventKind.REVIEW_REQUESTED, {})
    rejected: ToldEvent = (EventKind.REVIEW_REJECTED, {"reason": "no"})
    board = board_after(*ACTIVE, CLAIMED, ACCEPTED, review, DONE, rejected)
    assert (board.card("t").accepted_commit, board.swarm.tasks["t"].failures) == (None, 1)
    assert column_of(board, "t", lands=True) == "failed"


def test_questions_end_with_their_attempt_only_if_an_event_says_so() -> None:
    withdrawn: ToldEvent = (EventKind.QUESTIONS_WITHDRAWN, {"epoch": 1})
    assert board_after(*ACTIVE, ASKED, withdrawn, ENDED, QUEUED).card("t").questions == set()
    assert board_after(*ACTIVE, ASKED, ENDED, QUEUED).card("t").questions == {7}


def test_of_the_questions_of_earlier_versions_nobody_knows_how_they_ended() -> None:
    old: ToldEvent = (EventKind.QUESTION_ASKED, {"worker": "w", "epoch": 1, "question_id": 7})
    assert board_after(*ACTIVE, old).card("t").questions == {7}
    card = board_after(*ACTIVE, old, ENDED, QUEUED).card("t")
    assert (card.questions, card.doubtful_questions) == (set(), {7})
    answered = board_after(*ACTIVE, old, ENDED, QUEUED, ANSWERED).card("t")
    assert answered.doubtful_questions == set()


def test_the_end_of_an_older_attempt_does_not_end_a_claim() -> None:
    again: ToldEvent = (EventKind.TASK_ASSIGNED, {"worker": "v", "epoch": 2})
    started: ToldEvent = (
        EventKind.TASK_STARTED,
        {"worker": "v", "epoch": 2, "lease_expires_at": 5, "state": "executing"},
    )
    claim: ToldEvent = (EventKind.CLAIM_MADE, {"worker": "v", "epoch": 2, "claim_id": 2})
    assert board_after(*ACTIVE, again, started, claim, ENDED).card("t").claim_id == 2


def test_milestones_follow_the_state_and_ci() -> None:
    def milestone(*events: ToldEvent) -> str | None:
        board = board_after(*ACTIVE, *events)
        return board.milestone(board.swarm.attempts["t"])

    pushed: ToldEvent = (
        EventKind.MILESTONE_REPORTED,
        {"epoch": 1, "milestone": "PUSHED_TO_CI", "state": "verifying"},
    )
    red: ToldEvent = (EventKind.CI_FAILED, {"worker": "w", "epoch": 1, "resumes": True})
    assert milestone() == "WORKING"
    assert milestone(pushed) == "PUSHED_TO_CI"
    assert milestone(pushed, red) == "FIXING_CI"
    assert milestone(pushed, red, pushed, CLAIMED, REFUSED) == "WORKING"
    assert milestone(ASKED) == "BLOCKED"


def test_an_attempt_after_a_red_push_may_start_at_either_milestone() -> None:
    pushed: ToldEvent = (
        EventKind.MILESTONE_REPORTED,
        {"epoch": 1, "milestone": "PUSHED_TO_CI", "state": "verifying"},
    )
    again: ToldEvent = (EventKind.TASK_ASSIGNED, {"worker": "w", "epoch": 2})
    started: ToldEvent = (
        EventKind.TASK_STARTED,
        {"worker": "w", "epoch": 2, "lease_expires_at": 5, "state": "executing"},
    )
    board = board_after(*ACTIVE, pushed, ENDED, QUEUED, again, started)
    assert board.milestone(board.swarm.attempts["t"]) is None


def test_a_cancelled_task_no_longer_waits_for_an_answer() -> None:
    paused: ToldEvent = (EventKind.DISPATCH_PAUSED, {"kind": "answer"})
    board = board_after(ADDED, paused)
    assert board.holds == {("t", "answer")}
    assert board_after(ADDED, paused, (EventKind.TASK_CANCELLED, {})).holds == set()


def test_packets_are_on_the_board_too() -> None:
    packet = {"bead_id": None, "packet_id": 3, "packet_name": "api", "tasks_total": 2, "attempt": 1}
    registered: ToldEvent = (EventKind.WORKER_REGISTERED, packet)
    board = board_after(ADDED, registered)
    assert columns_of(board, lands=False) == {"packet-3": "running", "t": "waiting"}
    assert board.card("packet-3").title == "api"
    assert counts_of(columns_of(board, lands=False))["running"] == 1
    complete: ToldEvent = (EventKind.WORKER_COMPLETE, {"bead_id": None, "packet_id": 3})
    board = board_after(ADDED, registered, complete)
    assert column_of(board, "packet-3", lands=False) == "done"
