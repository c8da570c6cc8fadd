"""The worker protocol as its document defines it; `.mahabharatha/protocol.py` exports it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from shiftboss.protocol.messages import Message, MessageType
from shiftboss.protocol.states import WorkerState
from shiftboss.rules.tasks.lifecycle import TRANSITIONS

CONTEXT_THRESHOLD: Final = 0.70


class WorkerProtocol:
    """Manages worker state transitions."""

    VALID_TRANSITIONS = TRANSITIONS

    def __init__(self, worker_id: str) -> None:
        self.worker_id = worker_id
        self.state = WorkerState.IDLE
        self.current_task: str | None = None

    def transition(self, new_state: WorkerState) -> bool:
        """Attempt state transition. Returns success."""
        if new_state in self.VALID_TRANSITIONS.get(self.state, []):
            self.state = new_state
            return True
        return False

    def can_accept_task(self) -> bool:
        """Check if worker can receive new task."""
        return self.state == WorkerState.IDLE


def check_context_threshold(context_usage: float) -> bool:
    """Check if worker should checkpoint and exit."""
    return context_usage >= CONTEXT_THRESHOLD


def create_checkpoint_signal(
    task_id: str,
    worker_id: str,
    current_step: int,
    files_created: list[str],
    files_modified: list[str],
) -> Message:
    """Create context threshold message with checkpoint data."""
    return Message(
        type=MessageType.CONTEXT_THRESHOLD,
        worker_id=worker_id,
        timestamp=datetime.now(UTC),
        payload={
            "task_id": task_id,
            "current_step": current_step,
            "files_created": files_created,
            "files_modified": files_modified,
            "checkpoint_ready": True,
        },
    )
