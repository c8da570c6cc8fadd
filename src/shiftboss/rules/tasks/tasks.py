"""Tasks and the workers of the bus: what may be done with them."""

from __future__ import annotations

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
    worker: str | None  # who holds it, or held it last
    checkpoint: str | None  # JSON, for the next attempt
    last_error: str | None
    created_at_ms: int
    updated_at_ms: int
    failures: int = 0  # attempts that their workers gave up
    contract_version: int | None = None  # of its handoff, if it has one


class Worker(NamedTuple):
    """Somebody on the bus. Not `available`: was offered a task in vain and has not polled since."""

    swarm_id: str
    name: str
    task_id: str | None
    available: bool
    registered_at_ms: int
    last_activity_at_ms: int


class Question(NamedTuple):
    """What a blocked worker asks of its contact. The id counts within the swarm; 0: not stored."""

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


class Salvage(NamedTuple):
    """What an attempt left behind that was lost."""

    epoch: int
    worker: str
    reason: str
    commits: list[str]


def is_reserved(task_id: str) -> bool:
    """`packet-7` is the task of packet 7 and cannot be added by hand."""
    return _PACKET.fullmatch(task_id) is not None


def is_ended(task: Task) -> bool:
    return task.status in ("done", "cancelled")


def check_can_submit(task: Task) -> None:
    if is_ended(task):
        raise TaskEnded(task.task_id, task.status)


def check_epoch(assignment: Assignment, epoch: int | None) -> None:
    """A report that names an older attempt comes from a worker that has lost the task."""
    if epoch is not None and epoch != assignment.epoch:
        raise StaleEpoch(assignment.task_id, epoch, assignment.epoch)


def check_can_ack(worker: Worker, assignment: Assignment | None, task_id: str) -> Assignment:
    """A wrong or repeated acknowledgement is refused."""
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
    """The assignment that a report may end: acknowledged, of this worker and of this attempt."""
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
