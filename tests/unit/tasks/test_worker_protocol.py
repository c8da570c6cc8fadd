"""The worker's state machine and the context threshold, as in the document."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shiftboss.protocol.messages import Message, MessageType, message_from_json, message_to_json
from shiftboss.protocol.states import WorkerState
from shiftboss.rules.tasks.worker_protocol import (
    CONTEXT_THRESHOLD,
    WorkerProtocol,
    check_context_threshold,
    create_checkpoint_signal,
)

EDGES = {
    ("idle", "assigned"),
    ("assigned", "executing"),
    ("executing", "verifying"),
    ("executing", "blocked"),
    ("executing", "waiting"),
    ("executing", "failed"),
    ("verifying", "self_review"),
    ("verifying", "failed"),
    ("self_review", "complete"),
    ("self_review", "executing"),
    ("blocked", "executing"),
    ("waiting", "idle"),
    ("complete", "idle"),
    ("failed", "idle"),
}


@pytest.mark.requirement("WP-02")
def test_the_states_are_those_of_the_document() -> None:
    assert {state.name: state.value for state in WorkerState} == {
        "IDLE": "idle",
        "ASSIGNED": "assigned",
        "EXECUTING": "executing",
        "VERIFYING": "verifying",
        "SELF_REVIEW": "self_review",
        "COMPLETE": "complete",
        "FAILED": "failed",
        "BLOCKED": "blocked",
        "WAITING": "waiting",
    }


@pytest.mark.requirement("WP-02")
@pytest.mark.parametrize(("state", "goal"), list(product(WorkerState, WorkerState)))
def test_a_worker_moves_only_along_the_edges_of_the_table(
    state: WorkerState, goal: WorkerState
) -> None:
    worker = WorkerProtocol("w1")
    worker.state = state
    moved = worker.transition(goal)
    assert moved is ((state.value, goal.value) in EDGES)
    assert worker.state is (goal if moved else state)


@pytest.mark.requirement("WP-02")
def test_the_public_table_is_that_of_the_document() -> None:
    table = {
        (state.value, goal.value)
        for state, goals in WorkerProtocol.VALID_TRANSITIONS.items()
        for goal in goals
    }
    assert table == EDGES
    assert sum(map(len, WorkerProtocol.VALID_TRANSITIONS.values())) == len(EDGES)


@pytest.mark.requirement("WP-02")
def test_a_worker_starts_idle_and_takes_a_task_only_then() -> None:
    worker = WorkerProtocol("w1")
    assert (worker.worker_id, worker.state, worker.current_task) == ("w1", WorkerState.IDLE, None)
    for state in WorkerState:
        worker.state = state
        assert worker.can_accept_task() is (state is WorkerState.IDLE)


@pytest.mark.requirement("WP-03")
def test_a_context_is_full_at_seventy_percent() -> None:
    assert CONTEXT_THRESHOLD == 0.70
    assert not check_context_threshold(0.69)
    assert not check_context_threshold(0.6999999)
    assert check_context_threshold(0.70)
    assert check_context_threshold(0.85)


@pytest.mark.requirement("WP-03")
@given(st.floats(0.0, 1.0))
def test_a_context_is_full_exactly_from_the_threshold_on(usage: float) -> None:
    assert check_context_threshold(usage) is (usage >= 0.70)


@pytest.mark.requirement("WP-03", "WP-01")
def test_the_checkpoint_signal_has_the_payload_of_the_document() -> None:
    signal = create_checkpoint_signal("task-1", "w1", 3, ["a.py"], ["b.py"])
    assert type(signal) is Message
    assert signal.type is MessageType.CONTEXT_THRESHOLD
    assert signal.worker_id == "w1"
    assert abs(datetime.now(UTC) - signal.timestamp) < timedelta(minutes=1)
    assert signal.payload == {
        "task_id": "task-1",
        "current_step": 3,
        "files_created": ["a.py"],
        "files_modified": ["b.py"],
        "checkpoint_ready": True,
    }
    assert message_from_json(message_to_json(signal)) == signal
