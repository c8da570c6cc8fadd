"""Use case of parking: an attempt that cannot continue now ends without counting as a failure."""

from __future__ import annotations

import json
from typing import Any

from shiftboss.coordinator.bus.dispatch import (
    drain,
    end_attempt,
    enqueue,
    free_worker,
    take_swarm,
    take_task,
)
from shiftboss.coordinator.idempotency import report_digest
from shiftboss.coordinator.runs.holds import hold_for_answer, hold_for_dispute, put_hold
from shiftboss.errors import IllegalTransition
from shiftboss.protocol.events import EventKind
from shiftboss.protocol.runs import (
    ParkAnswer,
    ParkTaskRequest,
    ReleaseFilesAnswer,
    ReleaseFilesRequest,
)
from shiftboss.protocol.states import WorkerState
from shiftboss.rules.claims.claims import check_no_claim
from shiftboss.rules.runs.records import Hold
from shiftboss.rules.tasks.lifecycle import can_move
from shiftboss.rules.tasks.packets import Assignment
from shiftboss.rules.tasks.tasks import Task, Worker, check_holds
from shiftboss.store.port import Transaction


def park(tx: Transaction, request: ParkTaskRequest, now_ms: int) -> ParkAnswer:
    """An attempt is parked once: a repeat gets the first answer."""
    task, held, holder = take_task(tx, request.swarm_id, request.bead_id)
    report_key = report_digest("park", f"{request.name} {request.epoch}")
    first = tx.event_of_report(request.swarm_id, request.bead_id, report_key)
    if first is not None:
        return _answer(tx, request, json.loads(first.data)["until"])
    attempt = check_holds(held, request.bead_id, request.name, request.epoch)
    check_no_claim(attempt, "bead_id")
    blocked = attempt.state is WorkerState.BLOCKED
    if not blocked and not can_move(attempt.state, WorkerState.WAITING):
        raise IllegalTransition(
            f"{task.task_id} is {attempt.state.value} and cannot be parked; nothing was changed",
            field="bead_id",
            facts={"state": attempt.state.value},
        )
    tx.add_event(
        request.swarm_id,
        EventKind.TASK_PARKED,
        now_ms,
        {
            "bead_id": task.task_id,
            "worker": attempt.worker,
            "epoch": attempt.epoch,
            "reason": request.reason,
            "until": request.until_ms,
        },
        task_id=task.task_id,
        report_key=report_key,
    )
    _requeue(tx, task, attempt, holder, request, now_ms)
    return _answer(tx, request, request.until_ms)


def _requeue(
    tx: Transaction,
    task: Task,
    attempt: Assignment,
    holder: Worker | None,
    request: ParkTaskRequest,
    now_ms: int,
) -> None:
    """Queue the task again. The holds come first, so that the task is not handed out at once. The
    question of a blocked worker stays open, and its answer ends the hold of that question."""
    blocked = attempt.state is WorkerState.BLOCKED
    if blocked:
        hold_for_answer(tx, task, now_ms)
    if request.until_ms is not None:
        until = request.until_ms
        hold = Hold(task.swarm_id, task.task_id, "pause", request.reason, now_ms, until)
        put_hold(tx, hold, now_ms)
    end_attempt(
        tx,
        attempt._replace(state=WorkerState.WAITING),
        "parked",
        now_ms,
        keep_questions=blocked,
    )
    free_worker(tx, attempt, now_ms, holder=holder)
    if request.checkpoint is not None:
        task = task._replace(checkpoint=json.dumps(_with_origin(request.checkpoint, attempt)))
    enqueue(tx, task, now_ms)
    drain(tx, task.swarm_id, now_ms)


def _with_origin(checkpoint: dict[str, Any], attempt: Assignment) -> dict[str, Any]:
    return checkpoint | {"worker": attempt.worker, "epoch": attempt.epoch}


def _answer(tx: Transaction, request: ParkTaskRequest, until_ms: int | None) -> ParkAnswer:
    task = tx.task(request.swarm_id, request.bead_id)
    status = task.status if task else "queued"
    return ParkAnswer(success=True, bead_id=request.bead_id, status=status, until=until_ms)


def release_files(tx: Transaction, request: ReleaseFilesRequest, now_ms: int) -> ReleaseFilesAnswer:
    """The run of a swarm has ended: tasks without a worker keep no files from others. They
    reserve them again when they are handed out."""
    take_swarm(tx, request.swarm_id, now_ms)
    for name in request.workers:
        _retire(tx, request.swarm_id, name, now_ms)
    drain(tx, request.swarm_id, now_ms)
    released = tx.release_idle(request.swarm_id)
    if released:
        tx.add_event(request.swarm_id, EventKind.FILES_RELEASED, now_ms, {"released": released})
    return ReleaseFilesAnswer(success=True, released=released)


def _retire(tx: Transaction, swarm_id: str, name: str, now_ms: int) -> None:
    """A worker that is gone gets no more tasks until its next request. Its task is queued again,
    and is not offered to a worker of the run that is about to be gone as well."""
    worker = tx.worker(swarm_id, name)
    if worker is None:
        return
    tx.put_worker(worker._replace(available=False))
    held = tx.assignment(swarm_id, worker.task_id) if worker.task_id is not None else None
    if held is None or held.worker != name:
        return
    task = tx.task(swarm_id, held.task_id)
    assert task is not None, "an assignment has a task"
    # A question of an attempt before this offer stays open: its answer goes to the next worker.
    is_offer = held.state is WorkerState.ASSIGNED
    disputed = hold_for_dispute(tx, swarm_id, held.task_id, now_ms)
    end_attempt(tx, held, "run_ended", now_ms, keep_questions=is_offer or disputed)
    free_worker(tx, held, now_ms, available=False)
    if task.status == "active":
        enqueue(tx, task, now_ms)
