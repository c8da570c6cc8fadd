"""Invariants of the log: events without gaps, and a state that equals their fold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from shiftboss.coordinator.invariants.board import board_equals_fold
from shiftboss.coordinator.invariants.facts import BrokenInvariant, StoreFacts, SwarmFacts
from shiftboss.rules.tasks.board_fold import FoldedBoard
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
