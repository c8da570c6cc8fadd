"""The state machine of an assignment, and its view as a packet status."""

from __future__ import annotations

from typing import Final

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
