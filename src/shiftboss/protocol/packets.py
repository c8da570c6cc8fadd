"""The four reports of a worker about its packet, their responses, and the checkpoint files."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Self

from pydantic import model_validator
from pydantic_core import PydanticCustomError

from shiftboss.protocol.fields import (
    Answer,
    Commit,
    ErrorType,
    Message,
    PacketId,
    PacketName,
    Request,
    StepId,
    StepName,
    StepStatus,
    TasksCompleted,
    TasksTotal,
    Worktree,
    checkpoint_time,
)


class RegisterRequest(Request):
    packet_id: PacketId
    packet_name: PacketName
    tasks_total: TasksTotal
    worktree: Worktree


class RegisterAnswer(Answer):
    registered: bool
    packet_id: int
    packet_name: str
    swarm_id: str
    registered_at: str


class ProgressRequest(Request):
    packet_id: PacketId
    task_id: StepId
    task_name: StepName
    status: StepStatus
    tasks_completed: TasksCompleted
    tasks_total: TasksTotal
    commit: Commit | None = None

    @model_validator(mode="after")
    def _check_completed_is_at_most_total(self) -> Self:
        if self.tasks_completed > self.tasks_total:
            raise PydanticCustomError(
                "tasks_completed",
                "tasks_completed must not be more than tasks_total ({tasks_total})",
                {"tasks_total": self.tasks_total},
            )
        return self


class ProgressAnswer(Answer):
    acknowledged: bool
    packet_id: int
    task_id: str
    tasks_completed: int
    tasks_total: int
    timestamp: str


class CompleteRequest(Request):
    packet_id: PacketId
    final_commit: Commit
    tests_passed: bool
    review_passed: bool


class CompleteAnswer(Answer):
    acknowledged: bool
    packet_id: int
    final_commit: str
    completed_at: str
    swarm_complete: bool
    remaining_workers: int


class ErrorRequest(Request):
    packet_id: PacketId
    task_id: StepId
    error_type: ErrorType
    message: Message
    recoverable: bool


class ErrorAnswer(Answer):
    acknowledged: bool
    packet_id: int
    error_logged: bool
    retry_scheduled: bool
    retry_in_seconds: int | None


Report = RegisterRequest | ProgressRequest | CompleteRequest | ErrorRequest

CHECKPOINT_FOLDER = Path(".spellbook") / "checkpoints"

_EVENT_OF: dict[type[Report], str] = {
    RegisterRequest: "registered",
    ProgressRequest: "progress",
    CompleteRequest: "complete",
    ErrorRequest: "error",
}
# Members that every checkpoint has anyway, or that only the server needs.
_NOT_COPIED = {"packet_id", "packet_name", "tasks_completed", "tasks_total", "worktree"}


def checkpoint_path(worktree: str | Path, packet_id: int, packet_name: str) -> Path:
    """The file in the work tree that a worker leaves after each report."""
    return Path(worktree) / CHECKPOINT_FOLDER / f"packet-{packet_id}-{packet_name}.json"


def checkpoint_of(
    report: Report, *, packet_name: str, tasks_completed: int, tasks_total: int, now: datetime
) -> dict[str, object]:
    """The checkpoint of a report, with the members that the integration contract lists."""
    base: dict[str, object] = {
        "event": _EVENT_OF[type(report)],
        "timestamp": checkpoint_time(now),
        "packet_id": report.packet_id,
        "packet_name": packet_name,
        "tasks_completed": tasks_completed,
        "tasks_total": tasks_total,
    }
    return base | report.model_dump(exclude=_NOT_COPIED, exclude_none=True)
