"""The fold of the events of a swarm: the state of its tasks and attempts, from the events alone.

The store keeps the state beside the events. The two must agree at every commit, which the simulator
and `shiftboss fsck` check. Events of earlier versions say less; what they leave open is None here,
and None agrees with everything.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from shiftboss.protocol.events import Event, EventKind
from shiftboss.protocol.states import WorkerState
from shiftboss.rules.tasks.packets import packet_task_id


@dataclass
class FoldedTask:
    """A task as its events tell it. `status` is as in `Task`."""

    task_id: str
    depends_on: list[str]
    priority: int | None = None
    status: str = "open"
    epoch: int = 0
    worker: str | None = None
    failures: int | None = 0
    contract_version: int | None = None
    in_review: bool = False
    # The number of its first event in the queue: tasks of a priority keep this order.
    queued_first: int | None = None


@dataclass
class FoldedAttempt:
    """The current attempt at a task. `state` is None if the events do not tell it."""

    task_id: str
    epoch: int
    worker: str
    state: WorkerState | None
    steps_total: int = 0
    steps_completed: int = 0
    contract_version: int | None = None


@dataclass
class FoldedSwarm:
    """Apply the events in order, from the first."""

    tasks: dict[str, FoldedTask] = field(default_factory=dict)
    attempts: dict[str, FoldedAttempt] = field(default_factory=dict)
    contract_versions: dict[str, int] = field(default_factory=dict)
    workers: set[str] = field(default_factory=set)
    is_complete: bool = False
    last_event_id: int = 0

    def apply(self, event: Event) -> None:
        self.apply_data(event.event_id, event.kind, json.loads(event.data))

    def apply_data(self, event_id: int, kind: str, data: dict[str, Any]) -> None:
        self.last_event_id = event_id
        handle = _HANDLERS.get(kind)
        if handle is not None:
            handle(self, data)

    def waits_for(self, task_id: str) -> int:
        """How many dependencies of the task are not done, or done and not approved."""
        return sum(
            (other := self.tasks.get(name)) is None or other.status != "done" or other.in_review
            for name in self.tasks[task_id].depends_on
        )


def task_of_event(data: dict[str, Any]) -> str | None:
    """The task, or the packet, that an event with this data is about."""
    if data.get("packet_id") is not None:
        return packet_task_id(data["packet_id"])
    task_id: str | None = data.get("bead_id")
    return task_id


def fold(events: Iterable[Event]) -> FoldedSwarm:
    swarm = FoldedSwarm()
    for event in events:
        swarm.apply(event)
    return swarm


def _state(data: dict[str, Any], default: WorkerState | None) -> WorkerState | None:
    return WorkerState(data["state"]) if data.get("state") else default


# -- tasks


def _added(swarm: FoldedSwarm, data: dict[str, Any]) -> None:
    task_id = data["bead_id"]
    swarm.tasks[task_id] = FoldedTask(
        task_id, list(data.get("depends_on", ())), priority=data.get("priority")
    )


def _queued(swarm: FoldedSwarm, data: dict[str, Any]) -> None:
    task = swarm.tasks[data["bead_id"]]
    task.status = "queued"
    task.priority = data.get("priority", task.priority)
    if task.queued_first is None:
        task.queued_first = swarm.last_event_id


def _assigned(swarm: FoldedSwarm, data: dict[str, Any]) -> None:
    task = swarm.tasks[data["bead_id"]]
    task.status, task.epoch, task.worker = "active", data["epoch"], data["worker"]
    _attempt(swarm, task, WorkerState.ASSIGNED)


def _started(swarm: FoldedSwarm, data: dict[str, Any]) -> None:
    """An acknowledgement, or a claim on a task that was never handed out."""
    task = swarm.tasks[data["bead_id"]]
    # A claim starts without a lease; the event of an acknowledgement under a contract has a state.
    knows = task.contract_version is None or data.get("lease_expires_at") is None
    state = _state(data, WorkerState.EXECUTING if knows else None)
    task.status, task.epoch, task.worker = "active", data["epoch"], data["worker"]
    _attempt(swarm, task, state)


def _attempt(swarm: FoldedSwarm, task: FoldedTask, state: WorkerState | None) -> None:
    assert task.worker is not None
    swarm.attempts[task.task_id] = FoldedAttempt(
        task.task_id, task.epoch, task.worker, state, contract_version=task.contract_version
    )


def _done(swarm: FoldedSwarm, data: dict[str, Any]) -> None:
    swarm.tasks[data["bead_id"]].status = "done"
    swarm.attempts.pop(data["bead_id"], None)


def _failed(swarm: FoldedSwarm, data: dict[str, Any]) -> None:
    task = swarm.tasks[data["bead_id"]]
    task.failures = data.get("failures")
    task.status = "failed"  # if it is tried again, the next event queues it
    swarm.attempts.pop(task.task_id, None)


def _set_status(status: str) -> Callable[[FoldedSwarm, dict[str, Any]], None]:
    def handle(swarm: FoldedSwarm, data: dict[str, Any]) -> None:
        swarm.tasks[data["bead_id"]].status = status

    return handle


def _ended(swarm: FoldedSwarm, data: dict[str, Any]) -> None:
    held = swarm.attempts.get(data["bead_id"])
    if held is not None and held.epoch == data["epoch"]:
        del swarm.attempts[held.task_id]


# -- attempts


def _moved(default: WorkerState | None) -> Callable[[FoldedSwarm, dict[str, Any]], None]:
    """The attempt is in the state of the event; without one, in this state."""

    def handle(swarm: FoldedSwarm, data: dict[str, Any]) -> None:
        held = swarm.attempts.get(data["bead_id"])
        if held is not None:
            held.state = _state(data, default)

    return handle


def _asked(swarm: FoldedSwarm, data: dict[str, Any]) -> None:
    held = swarm.attempts.get(data["bead_id"])
    if held is None or held.epoch != data["epoch"]:
        return
    blocks = data.get("blocks")
    if blocks is None:
        held.state = None
    elif blocks:
        held.state = WorkerState.BLOCKED


def _answered(swarm: FoldedSwarm, data: dict[str, Any]) -> None:
    held = swarm.attempts.get(data["bead_id"])
    if held is None or held.epoch != data["epoch"]:
        return
    continues = data.get("continues")
    if continues is None and held.state in (WorkerState.BLOCKED, None):
        held.state = None
    elif continues:
        held.state = WorkerState.EXECUTING


def _ci_failed(swarm: FoldedSwarm, data: dict[str, Any]) -> None:
    held = swarm.attempts.get(data["bead_id"])
    if held is None:
        return
    if "resumes" not in data:
        held.state = None
    elif data["resumes"]:
        held.state = WorkerState.EXECUTING


def _contract(swarm: FoldedSwarm, data: dict[str, Any]) -> None:
    task_id, version = data["bead_id"], data["contract_version"]
    swarm.contract_versions[task_id] = version
    if task_id in swarm.tasks:
        swarm.tasks[task_id].contract_version = version
    if task_id in swarm.attempts:
        swarm.attempts[task_id].contract_version = version


# -- reviews


def _review_requested(swarm: FoldedSwarm, data: dict[str, Any]) -> None:
    if data["bead_id"] in swarm.tasks:
        swarm.tasks[data["bead_id"]].in_review = True


def _review_approved(swarm: FoldedSwarm, data: dict[str, Any]) -> None:
    if data["bead_id"] in swarm.tasks:
        swarm.tasks[data["bead_id"]].in_review = False


def _review_rejected(swarm: FoldedSwarm, data: dict[str, Any]) -> None:
    task = swarm.tasks[data["bead_id"]]
    task.in_review = False
    task.status = "failed"
    if task.failures is not None:
        task.failures += 1


# -- packets


def _registered(swarm: FoldedSwarm, data: dict[str, Any]) -> None:
    task_id = packet_task_id(data["packet_id"])
    swarm.is_complete = False
    swarm.attempts[task_id] = FoldedAttempt(
        task_id,
        data["attempt"],
        data["packet_name"],
        WorkerState.ASSIGNED,
        steps_total=data["tasks_total"],
        contract_version=swarm.contract_versions.get(task_id),
    )


def _progress(swarm: FoldedSwarm, data: dict[str, Any]) -> None:
    held = swarm.attempts[packet_task_id(data["packet_id"])]
    held.state = WorkerState.EXECUTING
    held.steps_completed, held.steps_total = data["tasks_completed"], data["tasks_total"]


def _completed(swarm: FoldedSwarm, data: dict[str, Any]) -> None:
    swarm.attempts[packet_task_id(data["packet_id"])].state = WorkerState.COMPLETE


def _error(swarm: FoldedSwarm, data: dict[str, Any]) -> None:
    held = swarm.attempts[packet_task_id(data["packet_id"])]
    if held.state in (WorkerState.COMPLETE, WorkerState.FAILED):
        return
    held.state = WorkerState.EXECUTING if data["retry_scheduled"] else WorkerState.FAILED


def _swarm_complete(swarm: FoldedSwarm, _data: dict[str, Any]) -> None:
    swarm.is_complete = True


def _swarm_reopened(swarm: FoldedSwarm, _data: dict[str, Any]) -> None:
    swarm.is_complete = False


def _joined(swarm: FoldedSwarm, data: dict[str, Any]) -> None:
    swarm.workers.add(data["worker"])


_HANDLERS: Final[dict[str, Callable[[FoldedSwarm, dict[str, Any]], None]]] = {
    EventKind.TASK_ADDED.value: _added,
    EventKind.TASK_QUEUED.value: _queued,
    EventKind.TASK_ASSIGNED.value: _assigned,
    EventKind.TASK_STARTED.value: _started,
    EventKind.TASK_PROGRESS.value: _moved(None),
    EventKind.TASK_DONE.value: _done,
    EventKind.TASK_FAILED.value: _failed,
    EventKind.TASK_CANCELLED.value: _set_status("cancelled"),
    EventKind.TASK_REOPENED.value: _set_status("open"),
    EventKind.TASK_WITHDRAWN.value: _set_status("open"),
    EventKind.ATTEMPT_ENDED.value: _ended,
    EventKind.CHECKPOINT_STORED.value: _moved(WorkerState.WAITING),
    EventKind.QUESTION_ASKED.value: _asked,
    EventKind.QUESTION_ANSWERED.value: _answered,
    EventKind.HANDOFF_SPAWNED.value: _contract,
    EventKind.CONTRACT_CHANGED.value: _contract,
    EventKind.CLAIM_MADE.value: _moved(WorkerState.VERIFYING),
    EventKind.CLAIM_REFUSED.value: _moved(None),
    EventKind.MILESTONE_REPORTED.value: _moved(None),
    EventKind.CI_FAILED.value: _ci_failed,
    EventKind.REVIEW_REQUESTED.value: _review_requested,
    EventKind.REVIEW_APPROVED.value: _review_approved,
    EventKind.REVIEW_REJECTED.value: _review_rejected,
    EventKind.WORKER_REGISTERED.value: _registered,
    EventKind.PROGRESS_UPDATE.value: _progress,
    EventKind.WORKER_COMPLETE.value: _completed,
    EventKind.WORKER_ERROR.value: _error,
    EventKind.SWARM_COMPLETE.value: _swarm_complete,
    EventKind.SWARM_REOPENED.value: _swarm_reopened,
    EventKind.BUS_WORKER_JOINED.value: _joined,
}
