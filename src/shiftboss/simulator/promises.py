"""What the servers promise over time, beside the invariants of every store: the history is legal,
answers are true, polls are answered, numbers never fall, and the queue keeps its order."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from shiftboss.coordinator.invariants.facts import BrokenInvariant, SwarmFacts
from shiftboss.protocol.events import Event, EventKind
from shiftboss.server.http.replies import Reply
from shiftboss.simulator.evidence import NO_REPOSITORY
from shiftboss.simulator.network import SentRequest

if TYPE_CHECKING:
    from shiftboss.simulator.server import SimulatedServer

# The events that an accepted report about an attempt leads to.
_EVENTS_OF: Final = {
    "/bus/ack_task": {EventKind.TASK_STARTED.value},
    "/bus/worker_done": {EventKind.TASK_DONE.value},
    "/bus/task_failed": {EventKind.TASK_FAILED.value},
    "/bus/report_milestone": {
        EventKind.MILESTONE_REPORTED.value,
        EventKind.CLAIM_MADE.value,
        EventKind.QUESTION_ASKED.value,
        EventKind.TASK_FAILED.value,
    },
    "/bus/swarm_complete": {EventKind.CLAIM_ACCEPTED.value, EventKind.CLAIM_MADE.value},
}
# A poll that nobody answers: longer than it may wait, and than a slow commit takes.
POLL_SLACK_SECONDS: Final = 10.0


class _Promise(NamedTuple):
    sent: SentRequest
    server: str
    due_at: float


class Promises:
    def __init__(self, on_broken: Callable[[BrokenInvariant], None]) -> None:
        self._on_broken = on_broken
        self._open: dict[asyncio.Task[Reply], _Promise] = {}
        # (kind, task, worker, epoch) of every event that names an attempt.
        self._told: set[tuple[str, str, str | None, int | None]] = set()
        self._added: dict[tuple[str, str], None] = {}
        self._numbers: dict[tuple[str, str, str], int] = {}

    # -- answers

    def expect_answer(
        self, handling: asyncio.Task[Reply], server: SimulatedServer, sent: SentRequest
    ) -> None:
        waits_ms = sent.body.get("timeout_ms", 0) if sent.path == "/bus/poll_task" else None
        if waits_ms is not None:
            due_at = asyncio.get_running_loop().time() + waits_ms / 1000 + POLL_SLACK_SECONDS
            self._open[handling] = _Promise(sent, server.name, due_at)
        handling.add_done_callback(lambda ended: self._answered(ended, sent))

    def _answered(self, handling: asyncio.Task[Reply], sent: SentRequest) -> None:
        self._open.pop(handling, None)
        if not handling.cancelled() and handling.exception() is None:
            self.check_answer(sent, handling.result())

    def check_answer(self, sent: SentRequest, reply: Reply) -> None:
        """An accepted report is in the log, under the name and the epoch of its sender."""
        if reply.status != 200:
            return
        body = sent.body
        if sent.path == "/bus/add_task":
            self._added[body["swarm_id"], body["bead_id"]] = None
        kinds = _EVENTS_OF.get(sent.path)
        if kinds is None:
            return
        answer = json.loads(reply.body)
        if answer.get("success") is False or answer.get("status") == "verifying":
            return
        if answer.get("receipt_id"):
            kinds = {EventKind.CLAIM_ACCEPTED.value}
        named = (body["bead_id"], body.get("name"), body.get("epoch"))
        if not any(self._has_told(kind, *named) for kind in sorted(kinds)):
            self._broken(
                "answer",
                body["swarm_id"],
                f"{sent.path} of {body['bead_id']}",
                f"was accepted from {body.get('name')} at epoch {body.get('epoch')}, but the log "
                "has no such event",
            )

    def _has_told(self, kind: str, task_id: str, name: str | None, epoch: int | None) -> bool:
        return any(
            (promise[0], promise[1]) == (kind, task_id)
            and name in (None, promise[2])
            and epoch in (None, promise[3])
            for promise in self._told
        )

    def check_polls(self, now: float) -> None:
        for promise in self._open.values():
            if promise.due_at < now:
                self._broken(
                    "poll",
                    promise.sent.body["swarm_id"],
                    f"poll of {promise.sent.body.get('name')}",
                    f"was never answered by {promise.server}",
                )

    # -- the log

    def note(self, event: Event, data: dict[str, Any]) -> None:
        if "bead_id" in data:
            promise = (event.kind, data["bead_id"], data.get("worker"), data.get("epoch"))
            self._told.add(promise)
        if event.kind == EventKind.CLAIM_REFUSED and NO_REPOSITORY in event.data:
            subject = f"claim {data['claim_id']} of {data['bead_id']}"
            self._broken(
                "blind", event.swarm_id, subject, "was refused by a server that saw nothing"
            )

    # -- the store

    def check_swarm(self, facts: SwarmFacts) -> None:
        """No task is lost, and no number falls."""
        swarm_id = facts.swarm.swarm_id
        for added_to, task_id in self._added:
            if added_to == swarm_id and task_id not in facts.tasks:
                self._broken("lost_task", swarm_id, f"task {task_id}", "was added, and is gone")
        numbers = {("last event", ""): facts.events.last_id or 0}
        for task in facts.tasks.values():
            numbers["epoch", task.task_id] = task.epoch
            numbers["failures", task.task_id] = task.failures
        for task_id, claims in facts.claims.items():
            numbers["claims", task_id] = len(claims)
        for held in facts.assignments.values():
            numbers[f"steps of attempt {held.epoch}", held.task_id] = held.steps_completed
        for queue in facts.queues.values():
            numbers["queue number", str(queue.priority)] = queue.last_number
        for (what, name), number in numbers.items():
            before = self._numbers.get((swarm_id, what, name), 0)
            if number < before:
                self._broken("counter", swarm_id, f"{what} of {name}", f"fell to {number}")
            self._numbers[swarm_id, what, name] = number

    def _broken(self, invariant: str, swarm_id: str, subject: str, detail: str) -> None:
        self._on_broken(BrokenInvariant(invariant, swarm_id, subject, detail))
