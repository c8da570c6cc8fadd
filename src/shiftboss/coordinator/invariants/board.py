"""Invariants of what a replay shows beside the states: it equals what is stored."""

from __future__ import annotations

from collections.abc import Iterator

from shiftboss.coordinator.invariants.facts import BrokenInvariant, SwarmFacts
from shiftboss.rules.claims.handoffs import Claim
from shiftboss.rules.contract.milestones import milestone_view
from shiftboss.rules.runs.records import WHOLE_SWARM
from shiftboss.rules.tasks.board_fold import FoldedBoard, FoldedCard
from shiftboss.rules.tasks.packets import Assignment


def board_equals_fold(facts: SwarmFacts, board: FoldedBoard) -> Iterator[BrokenInvariant]:
    """What the events of earlier versions leave open agrees with everything."""
    for task_id in sorted(facts.tasks.keys() | facts.assignments.keys()):
        card = board.card(task_id)
        for detail in _differences(facts, board, task_id, card):
            yield facts.broken("fold", f"card of {task_id}", detail)
    for task_id, kind in sorted(facts.holds ^ board.holds):
        subject = "swarm" if task_id == WHOLE_SWARM else f"task {task_id}"
        detail = f"has the hold {kind} in one of store and events only"
        yield facts.broken("fold", subject, detail)


def _differences(
    facts: SwarmFacts, board: FoldedBoard, task_id: str, card: FoldedCard
) -> Iterator[str]:
    if task_id in facts.tasks and facts.tasks[task_id].title != card.title:
        yield f"title is {facts.tasks[task_id].title} in the store and {card.title} in the events"
    if task_id in facts.tasks and task_id in board.swarm.tasks:
        review = facts.reviews.get(task_id)
        in_review = review is not None and review.state == "open"
        if in_review != board.swarm.tasks[task_id].in_review:
            yield "is in review in one of store and events only"
    yield from _questions(facts.open_questions.get(task_id, set()), card)
    yield from _landing(facts, task_id, card)
    held = facts.assignments.get(task_id)
    if held is not None:
        yield from _claim(held, facts.claims.get(task_id, []), card)
        yield from _milestone(facts, board, held)


def _questions(stored: set[int], card: FoldedCard) -> Iterator[str]:
    if not card.questions <= stored <= card.questions | card.doubtful_questions:
        told = sorted(card.questions)
        yield f"open questions are {sorted(stored)} in the store and {told} in the events"


def _landing(facts: SwarmFacts, task_id: str, card: FoldedCard) -> Iterator[str]:
    """The first versions accepted work without a record of its landing."""
    landing = facts.landings.get(task_id)
    if landing is None:
        if card.landed_commit is not None:
            yield f"landed as {card.landed_commit} in the events only"
        return
    if landing.commit_sha != card.accepted_commit:
        told = card.accepted_commit
        yield f"accepted commit is {landing.commit_sha} in the store and {told} in the events"
    if landing.landed_commit != card.landed_commit:
        told = card.landed_commit
        yield f"landed commit is {landing.landed_commit} in the store and {told} in the events"


def _claim(held: Assignment, claims: list[Claim], card: FoldedCard) -> Iterator[str]:
    if held.claim_id != card.claim_id:
        yield f"claim is {held.claim_id} in the store and {card.claim_id} in the events"
    escalated = any(
        claim.claim_id == held.claim_id and claim.escalated_at_ms is not None for claim in claims
    )
    if escalated != card.is_escalated:
        yield "its claim is escalated in one of store and events only"


def _milestone(facts: SwarmFacts, board: FoldedBoard, held: Assignment) -> Iterator[str]:
    attempt = board.swarm.attempts.get(held.task_id)
    told = None if attempt is None else board.milestone(attempt)
    failed = (held.task_id, held.epoch) in facts.after_failed_ci
    stored = milestone_view(held.state, ci_failed=failed)
    if told is not None and told != stored:
        yield f"milestone is {stored} in the store and {told} in the events"
