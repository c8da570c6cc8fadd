"""How an attempt ends: the task is done, it has failed, or the lease has expired."""

from __future__ import annotations

import json

from shiftboss.coordinator.bus.dispatch import (
    close_assignment,
    drain,
    end_attempt,
    enqueue,
    free_worker,
    keep_salvage,
)
from shiftboss.coordinator.handoffs.strategy_records import record_failure
from shiftboss.coordinator.runs.holds import hold_for_dispute
from shiftboss.errors import UnknownTask
from shiftboss.protocol.events import EventKind
from shiftboss.protocol.states import WorkerState
from shiftboss.rules.tasks.packets import Assignment
from shiftboss.rules.tasks.tasks import Task, Worker
from shiftboss.store.monitoring.measures import Measure
from shiftboss.store.port import Transaction


def finish_task(
    tx: Transaction,
    task: Task,
    assignment: Assignment,
    now_ms: int,
    report_key: bytes | None = None,
    holder: Worker | None = None,
    *,
    in_review: bool = False,
) -> None:
    """Complete the task, free its worker, and let dependent tasks become ready. They stay blocked
    while the work is in review."""
    close_assignment(tx, assignment, now_ms)
    if task.contract_version is not None:
        tx.release(task.swarm_id, task.task_id)
    tx.save_task(
        task._replace(status="done", checkpoint=None, last_error=None, updated_at_ms=now_ms)
    )
    tx.measure(Measure.ATTEMPTS_ENDED, 1, "done")
    tx.add_event(
        assignment.swarm_id,
        EventKind.TASK_DONE,
        now_ms,
        {"bead_id": task.task_id, "worker": assignment.worker, "epoch": assignment.epoch},
        task_id=task.task_id,
        report_key=report_key,
    )
    free_worker(tx, assignment, now_ms, holder=holder)
    if not in_review:
        release_dependents(tx, task, now_ms)
    drain(tx, task.swarm_id, now_ms)


def release_dependents(tx: Transaction, task: Task, now_ms: int) -> None:
    for dependent in tx.dependents(task.swarm_id, task.task_id):
        released = dependent._replace(waits_for=dependent.waits_for - 1)
        if dependent.status == "queued" and dependent.waits_for == 1:
            # From now on it waits for a worker.
            released = released._replace(updated_at_ms=now_ms)
            tx.change_ready(task.swarm_id, dependent.priority, +1)
        tx.save_task(released)


def fail_task(
    tx: Transaction,
    assignment: Assignment,
    reason: str,
    now_ms: int,
    *,
    again: bool = False,
    counts: bool = True,
    checkpoint_path: str | None = None,
    report_key: bytes | None = None,
) -> None:
    """The attempt failed. `again`: the task is queued for another attempt, which gets the path of
    the checkpoint of this one. `counts` is false if only a person can help: the next attempt starts
    with the answer."""
    task = held_task(tx, assignment)
    failures = task.failures + 1 if counts else task.failures
    task = task._replace(last_error=reason, failures=failures, updated_at_ms=now_ms)
    if checkpoint_path is not None:
        checkpoint = {
            "checkpoint_path": checkpoint_path,
            "worker": assignment.worker,
            "epoch": assignment.epoch,
        }
        task = task._replace(checkpoint=json.dumps(checkpoint))
    # The answer to a question that is still open goes to the next worker.
    waits_for_answer = assignment.state is WorkerState.BLOCKED and not again
    close_assignment(tx, assignment, now_ms, keep_questions=waits_for_answer)
    record_failure(tx, assignment, reason, task.failures, now_ms)
    keep_salvage(tx, assignment, "failed", now_ms)
    tx.measure(Measure.ATTEMPTS_ENDED, 1, "failed")
    tx.add_event(
        assignment.swarm_id,
        EventKind.TASK_FAILED,
        now_ms,
        {
            "bead_id": task.task_id,
            "worker": assignment.worker,
            "epoch": assignment.epoch,
            "reason": reason,
            "again": again,
            "failures": task.failures,
        },
        task_id=task.task_id,
        report_key=report_key,
    )
    free_worker(tx, assignment, now_ms)
    if again:
        enqueue(tx, task, now_ms)
    else:
        tx.save_task(task._replace(status="failed"))
        if task.contract_version is not None:
            tx.release(task.swarm_id, task.task_id)
    drain(tx, assignment.swarm_id, now_ms)


def held_task(tx: Transaction, assignment: Assignment) -> Task:
    task = tx.task(assignment.swarm_id, assignment.task_id)
    if task is None:
        raise UnknownTask(assignment.task_id)
    return task


def expire(tx: Transaction, swarm_id: str, task_id: str, epoch: int, now_ms: int) -> bool:
    """End an attempt whose lease or offer has expired, and queue its task. False if the lease was
    renewed or the attempt ended in the meantime.

    The worker gets no more tasks until its next request.
    """
    if tx.take_swarm(swarm_id) is None:
        return False
    assignment = tx.assignment(swarm_id, task_id)
    task = tx.task(swarm_id, task_id)
    if (
        assignment is None
        or task is None
        or assignment.epoch != epoch
        or assignment.lease_expires_at_ms is None
        or assignment.lease_expires_at_ms > now_ms
    ):
        return False
    offered = assignment.state is WorkerState.ASSIGNED
    disputed = hold_for_dispute(tx, swarm_id, task_id, now_ms)
    reason = "offer_expired" if offered else "lease_expired"
    end_attempt(tx, assignment, reason, now_ms, keep_questions=disputed)
    free_worker(tx, assignment, now_ms, available=False)
    enqueue(tx, task, now_ms)
    drain(tx, swarm_id, now_ms)
    return True
