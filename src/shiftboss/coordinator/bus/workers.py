"""Use cases of workers on the bus: register, poll, acknowledge, done, failed, heartbeat, reset."""

from __future__ import annotations

from typing import Any, Generic, NamedTuple, TypeVar

from shiftboss.coordinator.bus.dispatch import (
    drain,
    end_attempt,
    enqueue,
    free_worker,
    take_swarm,
    take_task,
    take_worker,
)
from shiftboss.coordinator.bus.polls import answers_for, make_available, poll, renew
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
    FailedAnswer,
    HeartbeatAnswer,
    HeartbeatRequest,
    PollRequest,
    ReasonView,
    RegisterWorkerAnswer,
    RegisterWorkerRequest,
    ResetAnswer,
    ResetWorkerRequest,
    ReturnTaskRequest,
    StatusRequest,
    TaskEndAnswer,
    TaskFailedRequest,
    WorkerInfo,
)
from shiftboss.protocol.events import EventKind
from shiftboss.protocol.handoff_requests import SwarmCompleteRequest
from shiftboss.protocol.states import WorkerState
from shiftboss.rules.claims.claims import Claim
from shiftboss.rules.tasks.lifecycle import can_move
from shiftboss.rules.tasks.packets import Assignment
from shiftboss.rules.tasks.poll_acks import PollAck
from shiftboss.rules.tasks.tasks import (
    Worker,
    bus_status,
    check_can_ack,
    check_epoch,
    check_holds,
    check_is_for,
)
from shiftboss.rules.tasks.worker_protocol import check_context_threshold
from shiftboss.store.port import Transaction
from shiftboss.store.transaction_part import Prefetch


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
        make_available(tx, taken.worker, taken.assignment, now_ms)
        message = "Already registered"
    return RegisterWorkerAnswer(success=True, worker=request.name, message=message)


def ack(tx: Transaction, request: AckRequest, key: str | None, now_ms: int) -> AckAnswer:
    """The worker has received the task: its lease starts."""
    report_key = report_digest("ack", key)
    tx.prefetch(Prefetch.REPORT, request.swarm_id, request.bead_id, report_key=report_key)
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
    started_attempt = assignment._replace(
        state=WorkerState.EXECUTING,
        received=True,
        lease_seconds=request.lease_seconds or assignment.lease_seconds,
    )
    held = renew(tx, started_attempt, now_ms)
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
    tx.prefetch(Prefetch.FINISH, request.swarm_id, request.bead_id, report_key=report_key)
    task, held, worker = take_task(tx, request.swarm_id, request.bead_id)
    if task.contract_version is not None:
        return _claim(tx, request, key, now_ms)
    if bus_report(tx, request, report_key) is None:
        assignment = check_holds(held, request.bead_id, request.name, request.epoch)
        finish_task(tx, task, assignment, now_ms, report_key, worker)
    return DoneAnswer(success=True, bead_id=request.bead_id)


E = TypeVar("E", DoneAnswer, FailedAnswer)


class Ended(NamedTuple, Generic[E]):
    """A report that has ended an attempt, whose worker waits for the next task."""

    answer: E


def done_and_poll(
    tx: Transaction, request: DoneRequest, key: str | None, ack: PollAck | None, now_ms: int
) -> DoneAnswer | Claim | Ended[DoneAnswer]:
    """Report the task done, and take the next one if there is one now."""
    answer = done(tx, request, key, now_ms)
    return answer if isinstance(answer, Claim) else _with_next(tx, request, answer, ack, now_ms)


def failed_and_poll(
    tx: Transaction, request: TaskFailedRequest, key: str | None, ack: PollAck | None, now_ms: int
) -> FailedAnswer | Ended[FailedAnswer]:
    answer = failed(tx, request, key, now_ms)
    return _with_next(tx, request, answer, ack, now_ms)


def _with_next(
    tx: Transaction,
    request: DoneRequest | TaskFailedRequest,
    answer: E,
    ack: PollAck | None,
    now_ms: int,
) -> E | Ended[E]:
    assert request.name is not None, "the service has checked it"
    polled = poll(tx, PollRequest(swarm_id=request.swarm_id, name=request.name), ack, now_ms)
    return Ended(answer) if polled is None else answer.model_copy(update={"next": polled})


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
) -> FailedAnswer:
    _, held, _ = take_task(tx, request.swarm_id, request.bead_id)
    report_key = report_digest("failed", key)
    if bus_report(tx, request, report_key) is None:
        assignment = check_holds(held, request.bead_id, request.name, request.epoch)
        fail_task(tx, assignment, request.reason, now_ms, report_key=report_key)
    return FailedAnswer(success=True, bead_id=request.bead_id, status="failed")


def return_task(tx: Transaction, request: ReturnTaskRequest, now_ms: int) -> TaskEndAnswer:
    """Queue the task again, for a worker that leaves before it has begun with it. The worker gets
    no more tasks until its next request."""
    task, held, holder = take_task(tx, request.swarm_id, request.bead_id)
    assignment = check_holds(held, request.bead_id, request.name, request.epoch)
    end_attempt(tx, assignment, "returned", now_ms)
    free_worker(tx, assignment, now_ms, available=False, holder=holder)
    enqueue(tx, task, now_ms)
    drain(tx, request.swarm_id, now_ms)
    return TaskEndAnswer(success=True, bead_id=request.bead_id, status="queued")


def heartbeat(tx: Transaction, request: HeartbeatRequest, now_ms: int) -> HeartbeatAnswer:
    """Renew the lease. A worker with a full context is asked for its checkpoint."""
    tx.prefetch(Prefetch.HEARTBEAT, request.swarm_id, request.bead_id)
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
        answers=answers_for(tx, held) if held else [],
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
    return renew(tx, held, now_ms)


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
