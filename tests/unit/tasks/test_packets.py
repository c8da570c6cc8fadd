from __future__ import annotations

import pytest

from shiftboss.errors import CounterRegression, PacketConflict, PacketFinished
from shiftboss.protocol.packets import ProgressRequest, RegisterRequest
from shiftboss.protocol.states import WorkerState
from shiftboss.rules.tasks.packets import (
    Assignment,
    after_progress,
    check_same_registration,
    state_after_report,
)

ASSIGNMENT = Assignment(
    swarm_id="s",
    task_id="packet-1",
    epoch=1,
    state=WorkerState.EXECUTING,
    packet_id=1,
    worker="backend-api",
    worktree="/w",
    steps_total=10,
    steps_completed=3,
    retries_open=0,
    registered_at_ms=0,
    updated_at_ms=0,
    finished_at_ms=None,
    final_commit=None,
    tests_passed=None,
    review_passed=None,
    last_error=None,
)
REGISTRATION = RegisterRequest(
    packet_id=1, packet_name="backend-api", tasks_total=10, worktree="/w"
)


def report(status: str, tasks_completed: int) -> ProgressRequest:
    return ProgressRequest.model_validate(
        {
            "packet_id": 1,
            "task_id": "t",
            "task_name": "T",
            "status": status,
            "tasks_completed": tasks_completed,
            "tasks_total": 10,
        }
    )


@pytest.mark.requirement("SW-07")
@pytest.mark.parametrize(
    ("status", "said", "recorded"),
    [
        ("completed", 4, 4),
        ("completed", 3, 3),
        ("completed", 7, 7),
        ("started", 3, 3),
        ("started", 5, 3),
        ("failed", 5, 3),
    ],
)
def test_the_counter_increases_only_on_completion(status: str, said: int, recorded: int) -> None:
    after = after_progress(ASSIGNMENT, report(status, said), now_ms=9)
    assert (after.steps_completed, after.updated_at_ms) == (recorded, 9)


@pytest.mark.requirement("SW-07")
@pytest.mark.parametrize("status", ["started", "completed", "failed"])
def test_the_counter_never_decreases(status: str) -> None:
    with pytest.raises(CounterRegression) as caught:
        after_progress(ASSIGNMENT, report(status, 2), now_ms=9)
    assert caught.value.facts == {"recorded": 3}
    assert caught.value.field == "tasks_completed"


@pytest.mark.parametrize("state", [WorkerState.COMPLETE, WorkerState.FAILED])
@pytest.mark.parametrize("goal", [WorkerState.EXECUTING, WorkerState.COMPLETE, WorkerState.FAILED])
def test_a_finished_packet_refuses_further_reports(state: WorkerState, goal: WorkerState) -> None:
    with pytest.raises(PacketFinished):
        state_after_report(ASSIGNMENT._replace(state=state), goal)


@pytest.mark.parametrize(("field", "other"), [("packet_name", "frontend"), ("worktree", "/v")])
def test_another_worker_under_the_same_packet_id_is_a_conflict(field: str, other: object) -> None:
    check_same_registration(ASSIGNMENT, REGISTRATION)
    with pytest.raises(PacketConflict) as caught:
        check_same_registration(ASSIGNMENT, REGISTRATION.model_copy(update={field: other}))
    assert caught.value.field == field
