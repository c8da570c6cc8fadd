"""In which column of the board a task is."""

from __future__ import annotations

from typing import Final

from shiftboss.protocol.board.cards import Column
from shiftboss.protocol.states import WorkerState
from shiftboss.rules.tasks.packets import Assignment
from shiftboss.rules.tasks.reasons import TaskSituation

_VERIFYING: Final = frozenset({WorkerState.VERIFYING, WorkerState.SELF_REVIEW})


def column_of(facts: TaskSituation, *, ci_pending: bool = False) -> Column:
    status = facts.task.status
    if needs_person(facts):
        return "needs_you"
    if status == "failed":
        return "failed"
    if status == "active":
        return "verifying" if _is_verified(facts, ci_pending) else "running"
    if status == "done":
        return "accepted" if _has_to_land(facts) else "done"
    return "done" if status == "cancelled" else "waiting"


def column_of_packet(packet: Assignment) -> Column:
    if packet.state is WorkerState.COMPLETE:
        return "done"
    if packet.state is WorkerState.FAILED:
        return "failed"
    return "verifying" if packet.state in _VERIFYING else "running"


def needs_person(facts: TaskSituation) -> bool:
    """Whether it waits for an answer, a decision or a review, or for somebody who raises its
    budget. What a task of another swarm or a pause holds back is waiting."""
    if facts.task.status == "done":
        return facts.review is not None and facts.review.state == "open"
    if facts.task.status == "cancelled":
        return False
    claim = facts.claim
    is_stuck = claim is not None and claim.state == "waiting" and claim.escalated_at_ms is not None
    over_budget = any(hold.kind == "budget" and hold.task_id for hold in facts.holds)
    return bool(facts.questions or facts.scope_requests or is_stuck or over_budget)


def _is_verified(facts: TaskSituation, ci_pending: bool) -> bool:
    held = facts.assignment
    return held is not None and (
        held.claim_id is not None or held.state in _VERIFYING or ci_pending
    )


def _has_to_land(facts: TaskSituation) -> bool:
    """Only a plan says that its work is to land."""
    landing = facts.landing
    return facts.run is not None and landing is not None and landing.landed_commit is None
