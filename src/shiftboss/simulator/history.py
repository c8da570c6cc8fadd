"""The log as it grows: every event is checked against the state that the events before it tell."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any, Final

from shiftboss.coordinator.invariants.facts import BrokenInvariant
from shiftboss.protocol.events import Event, EventKind
from shiftboss.protocol.states import WorkerState
from shiftboss.rules.tasks.board_fold import FoldedBoard
from shiftboss.rules.tasks.event_fold import FoldedAttempt, FoldedSwarm
from shiftboss.store.transaction import SqlTransaction

_BY_HOLDER: Final = frozenset(
    {
        EventKind.TASK_PROGRESS.value,
        EventKind.TASK_DONE.value,
        EventKind.TASK_FAILED.value,
        EventKind.CHECKPOINT_STORED.value,
        EventKind.MILESTONE_REPORTED.value,
        EventKind.CLAIM_MADE.value,
    }
)
_NOT_STARTED: Final = (WorkerState.ASSIGNED, WorkerState.WAITING)
EVENTS_PER_PAGE: Final = 500


class History:
    """`hash` is that of everything that was committed: the same for the same seed."""

    def __init__(
        self,
        on_broken: Callable[[BrokenInvariant], None],
        on_event: Callable[[Event, dict[str, Any]], None],
    ) -> None:
        self.boards: dict[str, FoldedBoard] = {}
        self.events = 0
        self._on_broken = on_broken
        self._on_event = on_event
        self._digest = hashlib.sha256()

    @property
    def hash(self) -> str:
        return self._digest.hexdigest()[:16]

    def read(self, tx: SqlTransaction, swarm_ids: list[str]) -> list[Event]:
        """Read the new events, check them, and fold them."""
        new: list[Event] = []
        for swarm_id in swarm_ids:
            board = self.boards.setdefault(swarm_id, FoldedBoard())
            while page := tx.events_after(swarm_id, board.swarm.last_event_id, EVENTS_PER_PAGE):
                for event in page:
                    self._add(tx, board, event)
                new += page
        return new

    def note(self, text: str) -> None:
        """Something that is no event and belongs to the history: a step, a crash."""
        self._digest.update(f"{text}\n".encode())

    def _add(self, tx: SqlTransaction, board: FoldedBoard, event: Event) -> None:
        folded = board.swarm
        self.note(f"{event.swarm_id} {event.event_id} {event.kind} {event.at_ms} {event.data}")
        self.events += 1
        data: dict[str, Any] = json.loads(event.data)
        if event.event_id != folded.last_event_id + 1:
            self._broken(event, f"follows event {folded.last_event_id}")
        problem = _problem(folded, event, data)
        if problem is None and event.kind == EventKind.TASK_ASSIGNED.value:
            problem = _overtaken(tx, folded, event, data)
        if problem is not None:
            self._broken(event, problem)
        board.apply(event)
        self._on_event(event, data)

    def _broken(self, event: Event, detail: str) -> None:
        subject = f"event {event.event_id} ({event.kind})"
        self._on_broken(BrokenInvariant("history", event.swarm_id, subject, detail))


def _problem(folded: FoldedSwarm, event: Event, data: dict[str, Any]) -> str | None:
    """Why this event must not happen now."""
    held = folded.attempts.get(data.get("bead_id", ""))
    if event.kind == EventKind.TASK_ASSIGNED.value:
        task = folded.tasks[data["bead_id"]]
        if held is not None:
            return f"{task.task_id} has a live attempt at epoch {held.epoch}"
        if data["epoch"] <= task.epoch:
            return f"epoch {data['epoch']} of {task.task_id} is not new"
        if folded.waits_for(task.task_id):
            return f"{task.task_id} waits for other tasks"
    if event.kind == EventKind.TASK_STARTED.value:
        return _start_problem(folded, held, data)
    if event.kind in _BY_HOLDER:
        return _holder_problem(held, event, data)
    return None


def _start_problem(
    folded: FoldedSwarm, held: FoldedAttempt | None, data: dict[str, Any]
) -> str | None:
    if held is None:  # a claim on a task that was never handed out
        is_new = data["epoch"] > folded.tasks[data["bead_id"]].epoch
        return None if is_new else f"epoch {data['epoch']} is not new"
    offered = (held.state, held.epoch, held.worker)
    if offered != (WorkerState.ASSIGNED, data["epoch"], data["worker"]):
        return f"the attempt is {held.state} at epoch {held.epoch} of {held.worker}"
    return None


def _holder_problem(held: FoldedAttempt | None, event: Event, data: dict[str, Any]) -> str | None:
    if held is None:
        return f"{data['bead_id']} has no attempt"
    if (held.epoch, held.worker) != (data["epoch"], data["worker"]):
        return f"{data['bead_id']} is held by {held.worker} at epoch {held.epoch}"
    if held.state in _NOT_STARTED and not _starts(held, event, data):
        return f"the attempt at {data['bead_id']} is {held.state}"
    return None


def _starts(held: FoldedAttempt, event: Event, data: dict[str, Any]) -> bool:
    """A worker may start its task by reporting the state, or by claiming: the verdict decides."""
    reports = event.kind == EventKind.TASK_PROGRESS.value and data["state"] == "executing"
    claims = event.kind == EventKind.CLAIM_MADE.value
    return held.state is WorkerState.ASSIGNED and (reports or claims)


def _overtaken(
    tx: SqlTransaction, folded: FoldedSwarm, event: Event, data: dict[str, Any]
) -> str | None:
    """A task from the queue is handed out before no task of a higher place that was ready, too."""
    task = folded.tasks[data["bead_id"]]
    if task.status != "queued" or data.get("spec_path") or tx.halts_in_force():
        return None
    mine = tx.task(event.swarm_id, task.task_id)
    for other in folded.tasks.values():
        if other is task or other.status != "queued" or folded.waits_for(other.task_id):
            continue
        row = tx.task(event.swarm_id, other.task_id)
        if row is None or mine is None or row.queue_number is None or mine.queue_number is None:
            continue
        if tx.holds_of_task(event.swarm_id, other.task_id):
            continue
        if (-row.priority, row.queue_number) < (-mine.priority, mine.queue_number):
            return f"{task.task_id} overtook {other.task_id} in the queue"
    return None
