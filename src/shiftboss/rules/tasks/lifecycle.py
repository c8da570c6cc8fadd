"""The state machine of an assignment, its view as a packet status, and the worker protocol."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from shiftboss.protocol.messages import Message, MessageType
from shiftboss.protocol.states import WorkerState

TRANSITIONS: Final[dict[WorkerState, list[WorkerState]]] = {
    WorkerState.IDLE: [WorkerState.ASSIGNED],
    WorkerState.ASSIGNED: [WorkerState.EXECUTING],
    WorkerState.EXECUTING: [
        WorkerState.VERIFYING,
        WorkerState.BLOCKED,
        WorkerState.WAITING,
        WorkerState.FAILED,
    ],
    WorkerState.VERIFYING: [WorkerState.SELF_REVIEW, WorkerState.FAILED],
    WorkerState.SELF_REVIEW: [WorkerState.COMPLETE, WorkerState.EXECUTING],
    WorkerState.BLOCKED: [WorkerState.EXECUTING],
    WorkerState.WAITING: [WorkerState.IDLE],
    WorkerState.COMPLETE: [WorkerState.IDLE],
    WorkerState.FAILED: [WorkerState.IDLE],
}

# A report can stand for several steps: "complete" implies that the work was verified and reviewed.
_REPORT_PATH: Final[dict[WorkerState, tuple[WorkerState, ...]]] = {
    WorkerState.EXECUTING: (WorkerState.EXECUTING,),
    WorkerState.FAILED: (WorkerState.EXECUTING, WorkerState.FAILED),
    WorkerState.COMPLETE: (
        WorkerState.EXECUTING,
        WorkerState.VERIFYING,
        WorkerState.SELF_REVIEW,
        WorkerState.COMPLETE,
    ),
}

_PACKET_STATUS: Final[dict[WorkerState, str]] = {
    WorkerState.IDLE: "registered",
    WorkerState.ASSIGNED: "registered",
    WorkerState.COMPLETE: "complete",
    WorkerState.FAILED: "failed",
}


def can_move(state: WorkerState, new_state: WorkerState) -> bool:
    return new_state in TRANSITIONS[state]


def follow(state: WorkerState, goal: WorkerState) -> WorkerState | None:
    """Walk from `state` to `goal` along the edges that a packet's report stands for.

    None if an edge is missing: the report is not allowed in this state.
    """
    for step in _REPORT_PATH[goal]:
        if step is state:
            continue
        if not can_move(state, step):
            return None
        state = step
    return state


def packet_status(state: WorkerState) -> str:
    """registered, running, complete or failed."""
    return _PACKET_STATUS.get(state, "running")


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
