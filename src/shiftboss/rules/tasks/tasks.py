"""Tasks, workers and questions of the bus, and the checks before a report is accepted."""

from __future__ import annotations

import json
import re
from typing import NamedTuple

from shiftboss.errors import (
    NotHeld,
    StaleEpoch,
    TaskEnded,
    TaskMismatch,
)
from shiftboss.protocol.states import WorkerState
from shiftboss.rules.tasks.packets import Assignment

_PACKET = re.compile(r"packet-\d+")


class Task(NamedTuple):
    """A unit of work. `status` is open, queued, active, done, failed or cancelled."""

    swarm_id: str
    task_id: str
    title: str
    description: str
    priority: int
    status: str
    waits_for: int  # dependencies that are not done
    queue_number: int | None
    epoch: int  # of the latest attempt, 0 before the first
    worker: str | None  # the current holder, or the last one
    checkpoint: str | None  # JSON, for the next attempt
    last_error: str | None
    created_at_ms: int
    updated_at_ms: int
    failures: int = 0  # attempts that their workers reported as failed
    contract_version: int | None = None  # of its handoff, if it has one


class Worker(NamedTuple):
    """A worker on the bus. It is not `available` after it let an offer expire, until it polls."""

    swarm_id: str
    name: str
    task_id: str | None
    available: bool
    registered_at_ms: int
    last_activity_at_ms: int


class Question(NamedTuple):
    """A question of a blocked worker. Ids count within the swarm; 0 means not stored yet. `dispute`
    is a Dispute as JSON, if the worker disputes its contract."""

    swarm_id: str
    question_id: int
    task_id: str
    epoch: int
    worker: str
    contact: str
    question: str
    asked_at_ms: int
    answer: str | None = None
    answered_at_ms: int | None = None
    dispute: str | None = None


class Salvage(NamedTuple):
    """The commits that a lost attempt left behind."""

    epoch: int
    worker: str
    reason: str
    commits: list[str]


def is_reserved(task_id: str) -> bool:
    """`packet-7` is the id of the task of packet 7, so nobody can add it by hand."""
    return _PACKET.fullmatch(task_id) is not None


def attempt_number(task: Task) -> int:
    """How often the task was tried: 0 before the first attempt, then one more than has failed. An
    attempt that was interrupted, handed over or parked is continued by the next."""
    if task.epoch == 0:
        return 0
    return task.failures if task.status == "failed" else task.failures + 1


def next_epoch(task: Task, floor: int) -> int:
    """Of the next attempt. Attempts up to `floor` belong to a database that was replaced."""
    return max(task.epoch, floor) + 1


def is_ended(task: Task) -> bool:
    return task.status in ("done", "cancelled")


def was_submitted(task: Task) -> bool:
    return task.queue_number is not None or task.epoch > 0


def has_left_checkpoint(task: Task, worker: str) -> bool:
    """Whether the checkpoint for the next attempt is this worker's own."""
    return task.checkpoint is not None and json.loads(task.checkpoint).get("worker") == worker


def check_can_submit(task: Task) -> None:
    if is_ended(task):
        raise TaskEnded(task.task_id, task.status, task.swarm_id)


def check_epoch(assignment: Assignment, epoch: int | None) -> None:
    """Reject a report that names an older attempt: its worker has lost the task."""
    if epoch is not None and epoch != assignment.epoch:
        raise StaleEpoch(assignment.task_id, epoch, assignment.epoch)


def check_is_for(held: Assignment, task_id: str | None, epoch: int | None) -> None:
    """Reject a heartbeat for a task that its worker has lost. The next one may have the same epoch:
    each task counts its own attempts."""
    if task_id is not None and task_id != held.task_id:
        raise TaskMismatch(held.worker, held.task_id, task_id)
    check_epoch(held, epoch)


def check_can_ack(worker: Worker, assignment: Assignment | None, task_id: str) -> Assignment:
    """Reject an acknowledgement of the wrong task, or a repeated one."""
    if (
        assignment is None
        or worker.task_id != task_id
        or assignment.state is not WorkerState.ASSIGNED
    ):
        raise TaskMismatch(worker.name, worker.task_id, task_id)
    return assignment


def check_holds(
    assignment: Assignment | None, task_id: str, name: str | None, epoch: int | None
) -> Assignment:
    """The assignment, if this worker has acknowledged it and this is its current attempt."""
    if assignment is not None:
        check_epoch(assignment, epoch)
    if assignment is None or assignment.state in (WorkerState.ASSIGNED, WorkerState.WAITING):
        raise NotHeld(task_id, None)
    if name is not None and name != assignment.worker:
        raise NotHeld(task_id, assignment.worker)
    return assignment


def bus_status(state: WorkerState | None, *, is_polling: bool) -> str:
    """idle, polling, pending or executing."""
    if state is None:
        return "polling" if is_polling else "idle"
    return "pending" if state is WorkerState.ASSIGNED else "executing"
