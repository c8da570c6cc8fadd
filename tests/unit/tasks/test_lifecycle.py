from __future__ import annotations

import pytest

from shiftboss.protocol.states import WorkerState
from shiftboss.rules.tasks.lifecycle import TRANSITIONS, can_move, follow, packet_status

EDGES = {
    (WorkerState.IDLE, WorkerState.ASSIGNED),
    (WorkerState.ASSIGNED, WorkerState.EXECUTING),
    (WorkerState.EXECUTING, WorkerState.VERIFYING),
    (WorkerState.EXECUTING, WorkerState.BLOCKED),
    (WorkerState.EXECUTING, WorkerState.WAITING),
    (WorkerState.EXECUTING, WorkerState.FAILED),
    (WorkerState.VERIFYING, WorkerState.SELF_REVIEW),
    (WorkerState.VERIFYING, WorkerState.FAILED),
    (WorkerState.SELF_REVIEW, WorkerState.COMPLETE),
    (WorkerState.SELF_REVIEW, WorkerState.EXECUTING),
    (WorkerState.BLOCKED, WorkerState.EXECUTING),
    (WorkerState.WAITING, WorkerState.IDLE),
    (WorkerState.COMPLETE, WorkerState.IDLE),
    (WorkerState.FAILED, WorkerState.IDLE),
}


def test_the_state_machine_has_exactly_these_edges() -> None:
    edges = {(a, b) for a in WorkerState for b in WorkerState if can_move(a, b)}
    assert edges == EDGES
    assert set(TRANSITIONS) == set(WorkerState)


@pytest.mark.parametrize(
    ("state", "goal", "expected"),
    [
        (WorkerState.ASSIGNED, WorkerState.EXECUTING, WorkerState.EXECUTING),
        (WorkerState.EXECUTING, WorkerState.EXECUTING, WorkerState.EXECUTING),
        (WorkerState.ASSIGNED, WorkerState.COMPLETE, WorkerState.COMPLETE),
        (WorkerState.ASSIGNED, WorkerState.FAILED, WorkerState.FAILED),
        (WorkerState.BLOCKED, WorkerState.COMPLETE, WorkerState.COMPLETE),
        (WorkerState.WAITING, WorkerState.EXECUTING, None),
        (WorkerState.FAILED, WorkerState.COMPLETE, None),
        (WorkerState.COMPLETE, WorkerState.EXECUTING, None),
    ],
)
def test_a_report_moves_along_the_edges_or_is_refused(
    state: WorkerState, goal: WorkerState, expected: WorkerState | None
) -> None:
    assert follow(state, goal) is expected


def test_every_state_has_a_packet_status() -> None:
    assert {state: packet_status(state) for state in WorkerState} == {
        WorkerState.IDLE: "registered",
        WorkerState.ASSIGNED: "registered",
        WorkerState.EXECUTING: "running",
        WorkerState.VERIFYING: "running",
        WorkerState.SELF_REVIEW: "running",
        WorkerState.BLOCKED: "running",
        WorkerState.WAITING: "running",
        WorkerState.COMPLETE: "complete",
        WorkerState.FAILED: "failed",
    }
