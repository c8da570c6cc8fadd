"""Use cases of workers on the bus: register, poll, acknowledge, done, failed, heartbeat, reset."""

from __future__ import annotations

import json
from typing import Any

from shiftboss.coordinator.bus.dispatch import (
    delivery,
    drain,
    end_attempt,
    enqueue,
    take_over_offer,
    take_polling_worker,
    take_swarm,
    take_task,
    take_worker,
)
from shiftboss.coordinator.bus.task_endings import fail_task, finish_task, held_task
from shiftboss.coordinator.claims import claims
from shiftboss.coordinator.contract.attempts import attempt_of
from shiftboss.coordinator.contract.recovery import first_state, start_attempt
from shiftboss.coordinator.idempotency import bus_report, report_digest
from shiftboss.coordinator.runs import holds
from shiftboss.coordinator.swarms import overview
from shiftboss.coordinator.swarms.swarms import check_exists
from shiftboss.errors import StaleEpoch, TaskMismatch
from shiftboss.protocol.bus import (
    AckAnswer,
    AckRequest,
    BusStatus,
    DoneAnswer,
    DoneRequest,
    HeartbeatAnswer,
    HeartbeatRequest,
    PollAnswer,
    PollRequest,
    ReasonView,
    RegisterWorkerAnswer,
    RegisterWorkerRequest,
    ResetAnswer,
    ResetWorkerRequest,
    StatusRequest,
    TaskEndAnswer,
    TaskFailedRequest,
    WorkerInfo,
)
from shiftboss.protocol.events import EventKind
from shiftboss.protocol.handoff_requests import SwarmCompleteRequest
from shiftboss.protocol.states import WorkerState
from shiftboss.rules.claims.handoffs import VIOLATIONS_TOLD_MAX, Claim
from shiftboss.rules.tasks.leases import heartbeat_lease_seconds
from shiftboss.rules.tasks.lifecycle import can_move
from shiftboss.rules.tasks.packets import Assignment
from shiftboss.rules.tasks.tasks import (
    Question,
    Worker,
    bus_status,
    check_can_ack,
    check_epoch,
    check_holds,
    check_is_for,
)
from shiftboss.rules.tasks.worker_protocol import check_context_threshold
from shiftboss.store.monitoring.measures import Measure
from shiftboss.store.port import Transaction
from shiftboss.store.transaction_part import Foreseen


def register_worker(
    tx: Transaction, request: RegisterWorkerRequest, now_ms: int
) -> RegisterWorkerAnswer:
    take_swarm(tx, request.swarm_id, now_ms)
    taken = tx.take_worker(request.swarm_id, request.name)
    if taken is None or taken.worker is None:
        tx.put_worker(Worker(request.swarm_id, request.name, None, True, now_ms, now_ms))
        tx.add_event(
            request.swarm_id, EventKind.BUS_WORKER_JOINED, now_ms, {"worker": request.name}
        )
        drain(tx, request.swarm_id, now_ms)
        message = "Registered"
    else:
        _make_available(tx, taken.worker, taken.assignment, now_ms)
        message = "Already registered"
    return RegisterWorkerAnswer(success=True, worker=request.name, message=message)


def _make_available(
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


def poll(tx: Transaction, request: PollRequest, now_ms: int) -> PollAnswer | None:
    """What there is for the worker now; None if it has to wait.

    A task that was not acknowledged is delivered again, with a new offer. A free worker takes over
    an offer that no poll has received.
    """
    tx.foresee(Foreseen.POLL, request.swarm_id, name=request.name)
    worker, held, may_have_offers = take_polling_worker(tx, request.swarm_id, request.name)
    assignment = _make_available(tx, worker, held, now_ms)
    if assignment is None and may_have_offers:
        assignment = take_over_offer(tx, worker, now_ms)
    if assignment is None:
        return None
    if assignment.state is WorkerState.ASSIGNED:
        if assignment.updated_at_ms != now_ms or not assignment.received:
            _measure_delivery(tx, assignment, now_ms)
            assignment = _renew(tx, assignment._replace(received=True), now_ms)
        task = held_task(tx, assignment)
        return PollAnswer(task=delivery(tx, task, assignment))
    answers = _answers(tx, assignment)
    for answer in answers:
        _note_delivery(tx, assignment, answer["question_id"], now_ms)
    verdict = _take_refusal(tx, assignment, now_ms)
    if not answers and verdict is None:
        return None
    return PollAnswer(task=None, answers=answers or None, verdict=verdict)


def _measure_delivery(tx: Transaction, offer: Assignment, now_ms: int) -> None:
    """The first poll that receives it. A parked one has received it with the assignment."""
    if not offer.received:
        tx.measure(Measure.DELIVERY_WAIT, (now_ms - offer.registered_at_ms) / 1000)


def ack(tx: Transaction, request: AckRequest, key: str | None, now_ms: int) -> AckAnswer:
    """The worker has received the task: its lease starts."""
    report_key = report_digest("ack", key)
    tx.foresee(Foreseen.REPORT, request.swarm_id, request.bead_id, report_key=report_key)
    worker, held = take_worker(tx, request.swarm_id, request.name)
    started = bus_report(tx, request, report_key)
    if started is None:
        assignment = check_can_ack(worker, held, request.bead_id)
        started = _start(tx, request, assignment, report_key, now_ms)
    return AckAnswer(success=True, **started)


def _start(
    tx: Transaction,
    request: AckRequest,
    assignment: Assignment,
    report_key: bytes | None,
    now_ms: int,
) -> dict[str, Any]:
    check_epoch(assignment, request.epoch)
    started_attempt = assignment._replace(state=WorkerState.EXECUTING, received=True)
    held = _renew(tx, started_attempt, now_ms)
    started = {
        "bead_id": request.bead_id,
        "worker": request.name,
        "epoch": held.epoch,
        "lease_expires_at": held.lease_expires_at_ms,
    }
    has_contract = held.contract_version is not None
    tx.add_event(
        request.swarm_id,
        EventKind.TASK_STARTED,
        now_ms,
        started | {"state": first_state(tx, held).value} if has_contract else started,
        task_id=request.bead_id,
        report_key=report_key,
    )
    if has_contract:
        start_attempt(tx, held, now_ms)
    return started


def done(tx: Transaction, request: DoneRequest, key: str | None, now_ms: int) -> DoneAnswer | Claim:
    """For a task with a contract: the claim that has to be verified first."""
    report_key = report_digest("done", key)
    tx.foresee(Foreseen.FINISH, request.swarm_id, request.bead_id, report_key=report_key)
    task, held, worker = take_task(tx, request.swarm_id, request.bead_id)
    if task.contract_version is not None:
        return _claim(tx, request, key, now_ms)
    if bus_report(tx, request, report_key) is None:
        assignment = check_holds(held, request.bead_id, request.name, request.epoch)
        finish_task(tx, task, assignment, now_ms, report_key, worker)
    return DoneAnswer(success=True, bead_id=request.bead_id)


def _claim(tx: Transaction, request: DoneRequest, key: str | None, now_ms: int) -> Claim:
    claim_request = SwarmCompleteRequest(
        swarm_id=request.swarm_id,
        bead_id=request.bead_id,
        commit=request.commit,
        summary=request.summary,
        name=request.name,
        epoch=request.epoch,
    )
    return claims.claim(tx, claim_request, key, now_ms)


def failed(
    tx: Transaction, request: TaskFailedRequest, key: str | None, now_ms: int
) -> TaskEndAnswer:
    _, held, _ = take_task(tx, request.swarm_id, request.bead_id)
    report_key = report_digest("failed", key)
    if bus_report(tx, request, report_key) is None:
        assignment = check_holds(held, request.bead_id, request.name, request.epoch)
        fail_task(tx, assignment, request.reason, now_ms, report_key=report_key)
    return TaskEndAnswer(success=True, bead_id=request.bead_id, status="failed")


def heartbeat(tx: Transaction, request: HeartbeatRequest, now_ms: int) -> HeartbeatAnswer:
    """Renew the lease. A worker with a full context is asked for its checkpoint."""
    tx.foresee(Foreseen.HEARTBEAT, request.swarm_id, request.bead_id)
    _, held = take_worker(tx, request.swarm_id, request.name)
    if held is not None:
        check_is_for(held, request.bead_id, request.epoch)
        held = renew_lease(tx, held, request, now_ms)
    elif request.epoch is not None:
        raise StaleEpoch.without_task(request.name, request.epoch)
    elif request.bead_id is not None:
        raise TaskMismatch(request.name, None, request.bead_id)
    return HeartbeatAnswer(
        success=True,
        worker=request.name,
        bead_id=held.task_id if held else None,
        epoch=held.epoch if held else None,
        lease_expires_at=held.lease_expires_at_ms if held else None,
        checkpoint_requested=held is not None and wants_checkpoint(held, request.context_usage),
        answers=_answers(tx, held) if held else [],
        paused=_paused(tx, held) if held else None,
    )


def _paused(tx: Transaction, held: Assignment) -> str | None:
    contract_pause = attempt_of(tx, held).paused if held.contract_version is not None else None
    budget_hold = holds.budget_pause(tx, held.swarm_id, held.task_id)
    return "; ".join(reason for reason in (contract_pause, budget_hold) if reason) or None


def wants_checkpoint(held: Assignment, context_usage: float | None) -> bool:
    """Whether the context is full and the state allows a checkpoint to be handed in."""
    return (
        context_usage is not None
        and check_context_threshold(context_usage)
        and can_move(held.state, WorkerState.WAITING)
    )


def is_held_by_server(held: Assignment) -> bool:
    """Whether the server verifies the claim or follows the CI: no lease runs or may start."""
    return held.state is WorkerState.VERIFYING and held.lease_expires_at_ms is None


def renew_lease(
    tx: Transaction, held: Assignment, request: HeartbeatRequest, now_ms: int
) -> Assignment:
    """Renew the lease, unless none runs: before the acknowledgement, while a worker with a full
    context waits, and while the server verifies or follows the CI."""
    held = held._replace(
        lease_seconds=request.lease_seconds or held.lease_seconds,
        context_usage=request.context_usage
        if request.context_usage is not None
        else held.context_usage,
        current_step=request.current_step or held.current_step,
    )
    if held.state in (WorkerState.ASSIGNED, WorkerState.WAITING) or is_held_by_server(held):
        tx.save_lease(held._replace(updated_at_ms=now_ms))
        return held
    return _renew(tx, held, now_ms)


def reset_worker(tx: Transaction, request: ResetWorkerRequest, now_ms: int) -> ResetAnswer:
    """Free a stuck worker: queue its task again and answer its parked poll."""
    worker, held = take_worker(tx, request.swarm_id, request.worker_name, "worker_name")
    if held is not None:
        disputed = holds.hold_for_dispute(tx, held.swarm_id, held.task_id, now_ms)
        end_attempt(tx, held, "reset", now_ms, keep_questions=disputed)
        task = held_task(tx, held)
        if task.status == "active":
            enqueue(tx, task, now_ms)
    tx.put_worker(worker._replace(task_id=None, available=True, last_activity_at_ms=now_ms))
    tx.add_event(
        request.swarm_id,
        EventKind.BUS_WORKER_RESET,
        now_ms,
        {"worker": worker.name, "released": worker.task_id},
    )
    drain(tx, request.swarm_id, now_ms)
    return ResetAnswer(success=True, worker=worker.name, released=worker.task_id)


def status(
    tx: Transaction, request: StatusRequest, polling: frozenset[str] | None, now_ms: int
) -> BusStatus:
    """`polling` are the workers of the swarm that wait for a task; None without a server."""
    swarm_id = request.swarm_id
    check_exists(tx, swarm_id)
    return BusStatus(
        swarm_id=swarm_id,
        workers=[
            _worker_view(worker, state, worker.name in (polling or ()), now_ms)
            for worker, state in tx.workers(swarm_id)
        ],
        queued=tx.ready_at_or_above(swarm_id, -(2**53)),
        holds=holds.views_of_swarm(tx, swarm_id),
        waiting=_waiting(tx, swarm_id, polling) if request.waiting else [],
    )


def _waiting(tx: Transaction, swarm_id: str, polling: frozenset[str] | None) -> list[ReasonView]:
    run = tx.plan_run(swarm_id)
    workers = overview.live_workers(tx, swarm_id, polling)
    return overview.waiting_in(tx, swarm_id, run, workers, overview.WAITING_LISTED_MAX)


def _worker_view(
    worker: Worker, state: WorkerState | None, is_polling: bool, now_ms: int
) -> WorkerInfo:
    status = bus_status(state, is_polling=is_polling)
    idle_ms = now_ms - worker.last_activity_at_ms if state is None else 0
    return WorkerInfo(
        name=worker.name,
        status=status,
        current_task=worker.task_id if status == "executing" else None,
        idle_seconds=max(idle_ms, 0) // 1000,
    )


def _renew(tx: Transaction, assignment: Assignment, now_ms: int) -> Assignment:
    end_ms = now_ms + heartbeat_lease_seconds(assignment) * 1000
    renewed = assignment._replace(updated_at_ms=now_ms, lease_expires_at_ms=end_ms)
    tx.save_lease(renewed)
    return renewed


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


def _answers(tx: Transaction, assignment: Assignment) -> list[dict[str, Any]]:
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
