"""How an attempt ends by its worker's word: the task is done, or has failed."""

from __future__ import annotations

import json

from shiftboss.coordinator.dispatch import (
    close_assignment,
    drain,
    enqueue,
    free_worker,
    keep_salvage,
)
from shiftboss.coordinator.learning import learn_of_failure
from shiftboss.errors import UnknownTask
from shiftboss.protocol.events import EventKind
from shiftboss.protocol.states import WorkerState
from shiftboss.rules.tasks.packets import Assignment
from shiftboss.rules.tasks.tasks import Task, Worker
from shiftboss.store.port import Transaction


def finish_task(
    tx: Transaction,
    task: Task,
    assignment: Assignment,
    now_ms: int,
    report_key: bytes | None = None,
    holder: Worker | None = None,
) -> None:
    """The task is done, its worker free, and those that waited for it come nearer."""
    close_assignment(tx, assignment, now_ms)
    if task.contract_version is not None:
        tx.release(task.swarm_id, task.task_id)
    tx.save_task(
        task._replace(status="done", checkpoint=None, last_error=None, updated_at_ms=now_ms)
    )
    tx.add_event(
        assignment.swarm_id,
        EventKind.TASK_DONE,
        now_ms,
        {"bead_id": task.task_id, "worker": assignment.worker, "epoch": assignment.epoch},
        task_id=task.task_id,
        report_key=report_key,
    )
    free_worker(tx, assignment, now_ms, holder=holder)
    for dependent in tx.dependents(task.swarm_id, task.task_id):
        tx.save_task(dependent._replace(waits_for=dependent.waits_for - 1))
        if dependent.status == "queued" and dependent.waits_for == 1:
            tx.change_ready(task.swarm_id, dependent.priority, +1)
    drain(tx, task.swarm_id, now_ms)


def fail_task(
    tx: Transaction,
    assignment: Assignment,
    reason: str,
    now_ms: int,
    *,
    again: bool = False,
    checkpoint_path: str | None = None,
    report_key: bytes | None = None,
) -> None:
    """The attempt failed. `again`: the task goes back to the queue for another, which is told
    where the failed one left its checkpoint."""
    task = held_task(tx, assignment)
    task = task._replace(last_error=reason, failures=task.failures + 1, updated_at_ms=now_ms)
    if checkpoint_path is not None:
        left = {
            "checkpoint_path": checkpoint_path,
            "worker": assignment.worker,
            "epoch": assignment.epoch,
        }
        task = task._replace(checkpoint=json.dumps(left))
    # A worker that leaves with its question open has it answered to the next one.
    waits_for_answer = assignment.state is WorkerState.BLOCKED and not again
    close_assignment(tx, assignment, now_ms, keep_questions=waits_for_answer)
    learn_of_failure(tx, assignment, reason, task.failures, now_ms)
    keep_salvage(tx, assignment, "failed", now_ms)
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
