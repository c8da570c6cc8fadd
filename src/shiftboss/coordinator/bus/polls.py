"""The use case of a poll: what there is for a worker now, and what it acknowledges by polling."""

from __future__ import annotations

import json
from typing import Any

from shiftboss.coordinator.bus.deliveries import delivery
from shiftboss.coordinator.bus.dispatch import (
    add_started,
    drain,
    take_over_offer,
    take_polling_worker,
    take_worker,
)
from shiftboss.coordinator.bus.task_endings import held_task
from shiftboss.coordinator.claims import claims
from shiftboss.coordinator.contract.recovery import first_state, start_attempt
from shiftboss.coordinator.idempotency import report_digest
from shiftboss.protocol.bus import (
    Delivery,
    PollAnswer,
    PollRequest,
)
from shiftboss.protocol.events import EventKind
from shiftboss.protocol.states import WorkerState
from shiftboss.rules.claims.claims import VIOLATIONS_TOLD_MAX
from shiftboss.rules.tasks.leases import heartbeat_lease_seconds
from shiftboss.rules.tasks.packets import Assignment
from shiftboss.rules.tasks.poll_acks import PollAck
from shiftboss.rules.tasks.tasks import (
    Question,
    Worker,
)
from shiftboss.store.monitoring.measures import Measure
from shiftboss.store.port import Transaction
from shiftboss.store.transaction_part import Prefetch


def make_available(
    tx: Transaction, worker: Worker, held: Assignment | None, now_ms: int
) -> Assignment | None:
    """A request from a worker that let an offer expire, or that waits with a full context: it can
    take a task again. What it holds afterwards."""
    waiting = held is not None and held.state is WorkerState.WAITING
    if worker.available and not waiting:
        return held
    tx.put_worker(worker._replace(available=True, task_id=None if waiting else worker.task_id))
    drain(tx, worker.swarm_id, now_ms)
    return take_worker(tx, worker.swarm_id, worker.name)[1]


def poll(
    tx: Transaction, request: PollRequest, ack: PollAck | None, now_ms: int
) -> PollAnswer | None:
    """What there is for the worker now; None if it has to wait.

    A task that was not acknowledged is delivered again, with a new offer. A free worker takes over
    an offer that no poll has received. With `ack`, the task is acknowledged here, and delivered
    again to the same poll.
    """
    tx.prefetch(Prefetch.POLL, request.swarm_id, name=request.name)
    worker, held, may_have_offers = take_polling_worker(tx, request.swarm_id, request.name)
    assignment = make_available(tx, worker, held, now_ms)
    if assignment is None and may_have_offers:
        assignment = take_over_offer(tx, worker, now_ms)
    if assignment is None:
        return None
    if ack is not None and assignment.state is WorkerState.ASSIGNED:
        return _start_polled(tx, assignment, ack, now_ms)
    if ack is not None and is_started_by(tx, assignment, ack):
        return _deliver_again(tx, assignment, now_ms)
    if assignment.state is WorkerState.ASSIGNED:
        if assignment.updated_at_ms != now_ms or not assignment.received:
            _measure_delivery(tx, assignment, now_ms)
            assignment = renew(tx, assignment._replace(received=True), now_ms)
        task = held_task(tx, assignment)
        return PollAnswer(task=delivery(tx, task, assignment))
    answers = answers_for(tx, assignment)
    for answer in answers:
        _note_delivery(tx, assignment, answer["question_id"], now_ms)
    verdict = _take_refusal(tx, assignment, now_ms)
    if not answers and verdict is None:
        return None
    return PollAnswer(task=None, answers=answers or None, verdict=verdict)


def _start_polled(tx: Transaction, offer: Assignment, ack: PollAck, now_ms: int) -> PollAnswer:
    _measure_delivery(tx, offer, now_ms)
    started = offer._replace(
        state=WorkerState.EXECUTING,
        received=True,
        lease_seconds=ack.lease_seconds or offer.lease_seconds,
    )
    held = renew(tx, started, now_ms)
    has_contract = held.contract_version is not None
    further: dict[str, object] = {"state": first_state(tx, held).value} if has_contract else {}
    add_started(tx, held, ack, now_ms, further)
    if has_contract:
        start_attempt(tx, held, now_ms)
    return _acknowledged(delivery(tx, held_task(tx, held), held))


def is_started_by(tx: Transaction, held: Assignment, ack: PollAck) -> bool:
    """Whether this poll has started the attempt, and its answer may have been lost. Without a key,
    the worker must have been silent since."""
    if held.state is not WorkerState.EXECUTING:
        return False
    started = tx.event_of_report(held.swarm_id, held.task_id, ack.report_key(held.epoch))
    return started is not None and (ack.key is not None or held.updated_at_ms == started.at_ms)


def _deliver_again(tx: Transaction, held: Assignment, now_ms: int) -> PollAnswer:
    """The whole lease, for a worker that perhaps has only now heard of it. It has not reported
    anything, so nothing else changes."""
    end_ms = now_ms + heartbeat_lease_seconds(held) * 1000
    renewed = held._replace(lease_expires_at_ms=end_ms, received=True)
    tx.save_lease(renewed)
    return _acknowledged(delivery(tx, held_task(tx, renewed), renewed))


def _acknowledged(task: Delivery) -> PollAnswer:
    return PollAnswer(task=task, acknowledged=True)


def _measure_delivery(tx: Transaction, offer: Assignment, now_ms: int) -> None:
    """The first poll that receives it. A parked one has received it with the assignment."""
    if not offer.received:
        tx.measure(Measure.DELIVERY_WAIT, (now_ms - offer.registered_at_ms) / 1000)


def _take_refusal(tx: Transaction, assignment: Assignment, now_ms: int) -> dict[str, Any] | None:
    """Deliver the refusal of a claim whose worker did not wait for it, once."""
    refused = claims.undelivered_refusal(tx, assignment)
    if refused is None:
        return None
    tx.mark_verdict_delivered(refused, now_ms)
    violations = json.loads(refused.verdict or "{}").get("violations", [])
    return {
        "kind": EventKind.CLAIM_REFUSED.value,
        **claims.event_data(refused),
        "violations": violations[:VIOLATIONS_TOLD_MAX],
    }


def answers_for(tx: Transaction, assignment: Assignment) -> list[dict[str, Any]]:
    """Delivered again until the next report shows that the worker has continued."""
    questions = tx.undelivered_answers(assignment.swarm_id, assignment.task_id, assignment.epoch)
    return [answer_view(question) for question in questions]


def _note_delivery(tx: Transaction, held: Assignment, question_id: int, now_ms: int) -> None:
    """Add an event when an answer is polled for the first time. A heartbeat does not count: it may
    be sent on behalf of an agent that does not see its response."""
    report_key = report_digest("answer_delivered", f"{question_id} {held.epoch}")
    if tx.event_of_report(held.swarm_id, held.task_id, report_key) is None:
        tx.add_event(
            held.swarm_id,
            EventKind.ANSWER_DELIVERED,
            now_ms,
            {
                "question_id": question_id,
                "bead_id": held.task_id,
                "worker": held.worker,
                "epoch": held.epoch,
            },
            task_id=held.task_id,
            report_key=report_key,
        )


def answer_view(question: Question) -> dict[str, Any]:
    return {
        "question_id": question.question_id,
        "question": question.question,
        "answer": question.answer,
    }


def renew(tx: Transaction, assignment: Assignment, now_ms: int) -> Assignment:
    end_ms = now_ms + heartbeat_lease_seconds(assignment) * 1000
    renewed = assignment._replace(updated_at_ms=now_ms, lease_expires_at_ms=end_ms)
    tx.save_lease(renewed)
    return renewed
