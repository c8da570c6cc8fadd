"""Document 002: the messages of the worker protocol and the state machine behind them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any, Final

from shiftboss.conformance.calls import Answered
from shiftboss.conformance.checks import Broken, CheckList, NotOffered
from shiftboss.conformance.server.harness import NOT_FOUND, Bus, ServerHarness
from shiftboss.conformance.shapes import NUMBER, expect

MESSAGES: Final[CheckList[ServerHarness]] = CheckList()

CHECKPOINT: Final[dict[str, Any]] = {
    "current_step": 3,
    "files_created": ["a.py"],
    "files_modified": ["b.py"],
    "checkpoint_ready": True,
}


class Sender:
    """Messages of one worker that holds one task."""

    def __init__(self, harness: ServerHarness) -> None:
        self.bus = harness.bus()
        self.name = self.bus.worker("w")
        (self.bead_id,) = self.bus.add("task")
        self._calls = harness.calls

    def take(self) -> Sender:
        self.bus.take(self.name, self.bead_id)
        return self

    def send(self, kind: str, payload: dict[str, Any] | None = None, **members: Any) -> Answered:
        message = {
            "type": kind,
            "worker_id": self.name,
            "timestamp": datetime.now(UTC).isoformat(),
            "payload": payload or {},
            **members,
        }
        query = f"?swarm_id={self.bus.swarm_id}" if self.bus.swarm_id else ""
        answered = self._calls.post(f"/messages{query}", message)
        if answered.status != NOT_FOUND:
            return answered
        if "send_message" not in self.bus.harness.tools:
            raise NotOffered("the server has neither POST /messages nor the tool send_message")
        return self.bus.ask("send_message", message=message)

    def must(
        self, kind: str, payload: dict[str, Any] | None = None, **members: Any
    ) -> dict[str, Any]:
        answered = self.send(kind, payload, **members)
        if answered.is_error:
            raise Broken(f"{kind} was refused: {json.dumps(answered.document)[:300]}")
        return answered.document

    def must_not(self, kind: str, payload: dict[str, Any] | None = None, **members: Any) -> None:
        answered = self.send(kind, payload, **members)
        if not answered.is_error or answered.status >= 500:
            raise Broken(f"{kind} got {answered.status}: {json.dumps(answered.document)[:200]}")

    def complete_members(self, *, passed: bool = True) -> dict[str, Any]:
        return {
            "task_id": self.bead_id,
            "files_created": [],
            "files_modified": ["b.py"],
            "verification_passed": passed,
            "verification_output": "3 passed",
        }

    def failed_members(self, *, recoverable: bool) -> dict[str, Any]:
        return {
            "task_id": self.bead_id,
            "error": "Build failed",
            "recoverable": recoverable,
            "checkpoint_path": None,
        }


@MESSAGES.add("assign", "002", "WP-01", "ASSIGN gives a task to a worker")
def assign(harness: ServerHarness) -> None:
    sender = Sender(harness)
    members: dict[str, Any] = {
        "spec_path": "specs/a.md",
        "worktree_path": "/path/to/worktree",
        "timeout_seconds": 600,
    }
    sender.must("assign", task_id=sender.bead_id, **members)
    task = sender.bus.poll(sender.name).get("task") or {}
    expect(task, {"bead_id": sender.bead_id, **members}, "the task")


@MESSAGES.add("heartbeat", "002", "WP-03", "HEARTBEAT asks for a checkpoint from 70% context on")
def heartbeat(harness: ServerHarness) -> None:
    sender = Sender(harness).take()
    for usage, is_full in ((0.69, False), (0.7, True), (0.85, True)):
        answer = {"checkpoint_requested": False} | sender.must(
            "heartbeat", context_usage=usage, current_step="tests"
        )
        expect(answer, {"checkpoint_requested": is_full}, f"the answer at {usage}")
    for usage in (-0.1, 1.1):
        sender.must_not("heartbeat", context_usage=usage, current_step=None)


@MESSAGES.add("progress-message", "002", "WP-05", "PROGRESS moves along the state machine")
def progress_message(harness: ServerHarness) -> None:
    sender = Sender(harness).take()
    for state in ("verifying", "self_review", "executing", "verifying"):
        answer = sender.must("progress", {"task_id": sender.bead_id, "state": state})
        expect(answer, {"state": state}, "the answer")


@MESSAGES.add("illegal", "002", "WP-02", "A transition that the machine lacks changes nothing")
def illegal(harness: ServerHarness) -> None:
    sender = Sender(harness)
    sender.must_not("complete", **sender.complete_members())
    sender.take()
    for state in ("idle", "assigned", "self_review", "complete"):
        sender.must_not("progress", {"task_id": sender.bead_id, "state": state})
    expect(sender.bus.worker_view(sender.name) or {}, {"status": "executing"}, "the worker")
    sender.must("progress", {"task_id": sender.bead_id, "state": "verifying"})
    sender.must_not("blocked", {"task_id": sender.bead_id, "question": "?"})


@MESSAGES.add(
    "complete-message", "002", "WP-05", "COMPLETE ends the task, with a passed verification"
)
def complete_message(harness: ServerHarness) -> None:
    sender = Sender(harness).take()
    sender.must_not("complete", **sender.complete_members(passed=False))
    sender.must("complete", **sender.complete_members())
    expect(sender.bus.worker_view(sender.name) or {}, {"status": "idle"}, "the worker")
    expect(sender.bus.refused("worker_done", bead_id=sender.bead_id), {"success": False}, "it")


@MESSAGES.add(
    "failed-message", "002", "WP-05", "FAILED ends the attempt; recoverable: it is queued"
)
def failed_message(harness: ServerHarness) -> None:
    sender = Sender(harness).take()
    sender.must("failed", **sender.failed_members(recoverable=True))
    task = sender.bus.poll(sender.name).get("task") or {}
    expect(task, {"bead_id": sender.bead_id}, "the task after a recoverable failure")
    sender.bus.do("ack_task", name=sender.name, bead_id=sender.bead_id)
    sender.must("failed", **sender.failed_members(recoverable=False))
    expect(sender.bus.poll(sender.name, 200), {"task": None}, "the poll after a final failure")


@MESSAGES.add("blocked", "002", "WP-07", "BLOCKED asks; the worker gets the answer and continues")
def blocked(harness: ServerHarness) -> None:
    sender = Sender(harness).take()
    payload = {"task_id": sender.bead_id, "question": "Which database?"}
    answer = sender.must("blocked", payload)
    expect(answer, {"state": "blocked", "question_id": NUMBER}, "the answer")
    sender.bus.do("answer_question", question_id=answer["question_id"], answer="Staging")
    polled = sender.bus.poll(sender.name)
    if "Staging" not in json.dumps(polled.get("answers")):
        raise Broken(f"the poll does not have the answer: {polled}")
    moved = sender.must("progress", {"task_id": sender.bead_id})
    expect(moved, {"state": "executing"}, "the answer to progress")


@MESSAGES.add(
    "context-threshold", "002", "WP-06", "A fresh worker gets the checkpoint of a full one"
)
def context_threshold(harness: ServerHarness) -> None:
    sender = Sender(harness).take()
    sender.must("context_threshold", {"task_id": sender.bead_id, **CHECKPOINT})
    fresh = sender.bus.worker("fresh")
    task = _task_of(sender.bus, fresh)
    expect(task, {"bead_id": sender.bead_id}, "the task of the fresh worker")
    expect(task.get("checkpoint") or {}, CHECKPOINT, "its checkpoint")


@MESSAGES.add(
    "bad-messages", "002", "WP-01", "Messages with missing or unknown members are refused"
)
def bad_messages(harness: ServerHarness) -> None:
    sender = Sender(harness).take()
    sender.must_not("dance")
    sender.must_not("heartbeat", context_usage=0.5)
    sender.must_not("heartbeat", context_usage=0.5, current_step=None, mood="good")
    sender.must_not("complete", task_id=sender.bead_id)
    sender.must_not("failed", task_id=sender.bead_id, error="x", recoverable="yes")
    expect(sender.bus.worker_view(sender.name) or {}, {"status": "executing"}, "the worker")


def _task_of(bus: Bus, name: str) -> dict[str, Any]:
    task: dict[str, Any] = bus.poll(name).get("task") or {}
    return task
