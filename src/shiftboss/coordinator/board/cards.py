"""Use case of the board: the cards of one page, or of some tasks."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import chain
from typing import Final

from shiftboss.coordinator.board.task_facts import (
    BoardFacts,
    MilestoneFacts,
    milestone_facts,
    read_facts,
)
from shiftboss.coordinator.swarms.swarms import check_exists
from shiftboss.protocol.board.cards import WAITS_FOR_MAX, Card, CardList, Ci, ListCardsRequest
from shiftboss.protocol.states import WorkerState
from shiftboss.rules.runs.budgets import MICRO
from shiftboss.rules.tasks.board_columns import column_of, column_of_packet
from shiftboss.rules.tasks.packet_reasons import packet_reasons
from shiftboss.rules.tasks.packets import Assignment
from shiftboss.rules.tasks.reasons import first_reason
from shiftboss.rules.tasks.tasks import Task, attempt_number
from shiftboss.rules.tasks.waiting import short_text
from shiftboss.store.board.port import CiState
from shiftboss.store.port import Transaction

CARDS_AT_ONCE: Final = 50


def listing(
    tx: Transaction, request: ListCardsRequest, polling: frozenset[str] | None, now_ms: int
) -> CardList:
    """The cost grows with the page alone."""
    swarm_id = request.swarm_id
    check_exists(tx, swarm_id)
    last_event = tx.last_event(swarm_id)
    tasks, packets, next_after = _page(tx, request)
    cards = _cards(read_facts(tx, swarm_id, tasks, polling, now_ms))
    known = {task.task_id for task in tasks}
    cards += [card_of_packet(packet) for packet in packets if packet.task_id not in known]
    return CardList(
        cards=sorted(cards, key=lambda card: card.bead_id),
        next_after=next_after,
        last_event_id=last_event.event_id if last_event else 0,
        server_time=now_ms,
    )


def _cards(known: Sequence[BoardFacts]) -> list[Card]:
    cards: list[Card] = []
    for start in range(0, len(known), CARDS_AT_ONCE):
        cards += map(card_of, known[start : start + CARDS_AT_ONCE])
        # The server switches threads rarely. Its event loop need not wait for a whole page.
        time.sleep(0)
    return cards


def _page(
    tx: Transaction, request: ListCardsRequest
) -> tuple[list[Task], list[Assignment], str | None]:
    """Tasks and packets share the order of the ids."""
    swarm_id, limit = request.swarm_id, request.limit
    if request.bead_ids is not None:
        held = tx.board_assignments(swarm_id, request.bead_ids).values()
        packets = [each for each in held if each.packet_id is not None]
        return tx.board_tasks(swarm_id, request.bead_ids), packets, None
    tasks = tx.board_page(swarm_id, request.after, limit)
    packets = tx.board_packet_page(swarm_id, request.after, limit)
    ids = sorted(each.task_id for each in chain[Task | Assignment](tasks, packets))
    if len(ids) < limit:
        return tasks, packets, None
    last = ids[limit - 1]
    return (
        [task for task in tasks if task.task_id <= last],
        [packet for packet in packets if packet.task_id <= last],
        last,
    )


def card_of(known: BoardFacts) -> Card:
    facts, task = known.facts, known.facts.task
    held, claim, landing = facts.assignment, facts.claim, facts.landing
    ci = ci_state(known.ci)
    reason = first_reason(facts)
    waits = [*(other.task_id for other in facts.dependencies), *facts.unlanded]
    is_waiting = task.status in ("open", "queued")
    milestone = _milestone(task, held, known)
    handoff = known.handoff
    return Card(
        bead_id=task.task_id,
        title=task.title,
        status=task.status,
        column=column_of(facts, ci_pending=ci == "pending"),
        state=held.state.value if held else None,
        milestone=milestone.milestone,
        substate=milestone.substate,
        progress=milestone.progress,
        worker=task.worker,
        model=handoff.model if handoff else None,
        repo=handoff.repo_name if handoff else None,
        priority=task.priority,
        depends_on=list(known.depends_on),
        epoch=task.epoch,
        attempt=attempt_number(task),
        created_at=task.created_at_ms,
        updated_at=max(task.updated_at_ms, held.updated_at_ms) if held else task.updated_at_ms,
        started_at=held.registered_at_ms if held else None,
        ended_at=task.updated_at_ms if task.status in ("done", "failed", "cancelled") else None,
        lease_expires_at=held.lease_expires_at_ms if held else None,
        hold=facts.holds[-1].kind if facts.holds and is_waiting else None,
        waits_for=waits[:WAITS_FOR_MAX] if is_waiting else [],
        waits_count=len(waits) if is_waiting else 0,
        reason_kind=reason.kind,
        reason=reason.text,
        command=reason.command,
        tokens=known.used.tokens if known.used else 0,
        dollars=known.used.microdollars / MICRO if known.used else 0.0,
        budget_dollars=_budget_dollars(known),
        budget_tokens=known.budget.tokens if known.budget else None,
        context_usage=held.context_usage if held else None,
        step=held.current_step if held else None,
        ci=ci,
        review=facts.review.state if facts.review else None,
        landed_commit=landing.landed_commit if landing else None,
        receipt_id=landing.receipt_id if landing else None,
        claim_id=claim.claim_id if claim else None,
        refused_by=claim.refused_by if claim else [],
        refusals=held.refusals if held else 0,
        last_error=short_text(task.last_error) if task.last_error else None,
        question_ids=[question.question_id for question in facts.questions],
        scope_request_ids=[request.request_id for request in facts.scope_requests],
    )


def card_of_packet(packet: Assignment) -> Card:
    """A packet has no task of its own: its worker says what it is about."""
    reason = next(iter(packet_reasons(packet)))
    status = {WorkerState.COMPLETE: "done", WorkerState.FAILED: "failed"}
    return Card(
        bead_id=packet.task_id,
        title=packet.worker,
        status=status.get(packet.state, "active"),
        column=column_of_packet(packet),
        state=packet.state.value,
        progress=f"{packet.steps_completed}/{packet.steps_total}",
        worker=packet.worker,
        epoch=packet.epoch,
        attempt=packet.epoch,
        created_at=packet.registered_at_ms,
        updated_at=packet.updated_at_ms,
        started_at=packet.registered_at_ms,
        ended_at=packet.finished_at_ms,
        reason_kind=reason.kind,
        reason=reason.text,
        command=reason.command,
        context_usage=packet.context_usage,
        step=packet.current_step,
        last_error=short_text(packet.last_error) if packet.last_error else None,
    )


def ci_state(ci: CiState | None) -> Ci | None:
    if ci is None:
        return None
    if ci.state in ("passed", "failed"):
        return "passed" if ci.state == "passed" else "failed"
    return "unreachable" if ci.errors else "pending"


def _milestone(task: Task, held: Assignment | None, known: BoardFacts) -> MilestoneFacts:
    if held is None or task.contract_version is None:
        return MilestoneFacts()
    return milestone_facts(held.state, held.epoch, known.attempt)


def _budget_dollars(known: BoardFacts) -> float | None:
    budget = known.budget
    return None if budget is None or budget.microdollars is None else budget.microdollars / MICRO
