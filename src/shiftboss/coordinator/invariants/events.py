"""Invariants of the log: events without gaps, and a state and a board that equal
their fold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from shiftboss.coordinator.invariants.facts import BrokenInvariant, StoreFacts, SwarmFacts
from shiftboss.rules.claims.claims import Claim
from shiftboss.rules.contract.milestones import milestone_view
from shiftboss.rules.runs.records import WHOLE_SWARM
from shiftboss.rules.tasks.board_fold import FoldedBoard, FoldedCard
from shiftboss.rules.tasks.event_fold import FoldedAttempt, FoldedSwarm, FoldedTask
from shiftboss.rules.tasks.packets import Assignment
from shiftboss.rules.tasks.tasks import Task
from shiftboss.store.port import Transaction

EVENTS_PER_PAGE = 1000


def events_have_no_gap(facts: SwarmFacts) -> Iterator[BrokenInvariant]:
    """Numbers have no gap. Old events are deleted from the first on."""
    span = facts.events
    if span.total == 0 or span.first_id is None or span.last_id is None:
        return
    if span.last_id - span.first_id + 1 != span.total:
        yield facts.broken(
            "event_gap",
            "events",
            f"{span.total} events from {span.first_id} to {span.last_id}: some are missing",
        )


def events_have_a_swarm(store: StoreFacts) -> Iterator[BrokenInvariant]:
    for swarm_id in sorted(set(store.swarm_ids_of_events) - set(store.swarm_ids)):
        yield BrokenInvariant("event_swarm", swarm_id, "events", "the swarm does not exist")


def fold_swarm(tx: Transaction, swarm_id: str) -> FoldedBoard:
    board = FoldedBoard()
    while page := tx.events_after(swarm_id, board.swarm.last_event_id, EVENTS_PER_PAGE):
        for event in page:
            board.apply(event)
    return board


def is_complete_log(facts: SwarmFacts) -> bool:
    """Whether the first event is there. Without it nothing can be folded."""
    return facts.events.first_id == 1


def state_equals_fold(facts: SwarmFacts, board: FoldedBoard) -> Iterator[BrokenInvariant]:
    folded = board.swarm
    for task_id in sorted(facts.tasks.keys() | folded.tasks.keys()):
        detail = _task_difference(facts.tasks.get(task_id), folded.tasks.get(task_id), folded)
        if detail is not None:
            yield facts.broken("fold", f"task {task_id}", detail)
    for task_id in sorted(facts.assignments.keys() | folded.attempts.keys()):
        detail = _attempt_difference(facts.assignments.get(task_id), folded.attempts.get(task_id))
        if detail is not None:
            yield facts.broken("fold", f"attempt at {task_id}", detail)
    if (facts.swarm.completed_at_ms is not None) != folded.is_complete:
        yield facts.broken("fold", "swarm", "is complete in one of store and events only")
    for name in sorted(folded.workers ^ facts.workers.keys()):
        yield facts.broken("fold", f"worker {name}", "is in one of store and events only")
    yield from board_equals_fold(facts, board)


def _task_difference(
    stored: Task | None, folded: FoldedTask | None, swarm: FoldedSwarm
) -> str | None:
    if stored is None or folded is None:
        return f"is in the {'events' if stored is None else 'store'} only"
    differing = {
        name: (ours, told)
        for name, ours, told in (
            ("status", stored.status, folded.status),
            ("epoch", stored.epoch, folded.epoch),
            ("worker", stored.worker, folded.worker),
            ("waits_for", stored.waits_for, swarm.waits_for(folded.task_id)),
            ("failures", stored.failures, folded.failures),
            ("priority", stored.priority, folded.priority),
            ("contract_version", stored.contract_version, folded.contract_version),
        )
        if ours != told and not (told is None and name in ("failures", "priority"))
    }
    return _explain(differing)


def _attempt_difference(stored: Assignment | None, folded: FoldedAttempt | None) -> str | None:
    if stored is None or folded is None:
        return f"is in the {'events' if stored is None else 'store'} only"
    differing = {
        name: (ours, told)
        for name, ours, told in (
            ("epoch", stored.epoch, folded.epoch),
            ("worker", stored.worker, folded.worker),
            ("state", stored.state.value, folded.state.value if folded.state else None),
            ("steps_total", stored.steps_total, folded.steps_total),
            ("steps_completed", stored.steps_completed, folded.steps_completed),
            ("contract_version", stored.contract_version, folded.contract_version),
        )
        if ours != told and not (told is None and name == "state")
    }
    return _explain(differing)


def _explain(differing: Mapping[str, tuple[object, object]]) -> str | None:
    if not differing:
        return None
    named = [
        f"{name} is {ours} in the store and {told} in the events"
        for name, (ours, told) in differing.items()
    ]
    return "; ".join(named)


def board_equals_fold(facts: SwarmFacts, board: FoldedBoard) -> Iterator[BrokenInvariant]:
    """Facts that the events of earlier versions leave open agree with everything."""
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
        folded = sorted(card.questions)
        yield f"open questions are {sorted(stored)} in the store and {folded} in the events"


def _landing(facts: SwarmFacts, task_id: str, card: FoldedCard) -> Iterator[str]:
    """The first versions accepted work without a record of its landing."""
    landing = facts.landings.get(task_id)
    if landing is None:
        if card.landed_commit is not None:
            yield f"landed as {card.landed_commit} in the events only"
        return
    if landing.commit_sha != card.accepted_commit:
        folded = card.accepted_commit
        yield f"accepted commit is {landing.commit_sha} in the store and {folded} in the events"
    if landing.landed_commit != card.landed_commit:
        folded = card.landed_commit
        yield f"landed commit is {landing.landed_commit} in the store and {folded} in the events"


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
    folded = None if attempt is None else board.milestone(attempt)
    failed = (held.task_id, held.epoch) in facts.after_failed_ci
    stored = milestone_view(held.state, ci_failed=failed)
    if folded is not None and folded != stored:
        yield f"milestone is {stored} in the store and {folded} in the events"
