"""The marker file of a worker: where it lies and what it says."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from shiftboss.protocol.reports import (
    CompleteRequest,
    ErrorRequest,
    ProgressRequest,
    RegisterRequest,
    Report,
)
from shiftboss.protocol.timestamps import checkpoint_time

CHECKPOINT_FOLDER = Path(".spellbook") / "checkpoints"

_EVENT_OF: dict[type[Report], str] = {
    RegisterRequest: "registered",
    ProgressRequest: "progress",
    CompleteRequest: "complete",
    ErrorRequest: "error",
}
# What the base of every checkpoint says already, or what only the server needs.
_NOT_COPIED = {"packet_id", "packet_name", "tasks_completed", "tasks_total", "worktree"}


def checkpoint_path(worktree: str | Path, packet_id: int, packet_name: str) -> Path:
    return Path(worktree) / CHECKPOINT_FOLDER / f"packet-{packet_id}-{packet_name}.json"


def checkpoint_of(
    report: Report, *, packet_name: str, tasks_completed: int, tasks_total: int, now: datetime
) -> dict[str, object]:
    """The checkpoint that belongs to a report, member by member as the contract has it."""
    base: dict[str, object] = {
        "event": _EVENT_OF[type(report)],
        "timestamp": checkpoint_time(now),
        "packet_id": report.packet_id,
        "packet_name": packet_name,
        "tasks_completed": tasks_completed,
        "tasks_total": tasks_total,
    }
    return base | report.model_dump(exclude=_NOT_COPIED, exclude_none=True)
