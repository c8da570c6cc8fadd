from __future__ import annotations

import pytest

from shiftboss.protocol.states import WorkerState
from shiftboss.rules.tasks.swarms import (
    Swarm,
    SwarmAttention,
    TaskCounts,
    WorkerCounts,
    remaining_workers,
    swarm_status,
)

SWARM = Swarm("s", "", "", False, True, None, 0, None)


@pytest.mark.parametrize(
    ("expected_workers", "counts", "remaining"),
    [
        (None, WorkerCounts(1, 1, 0), 0),
        (None, WorkerCounts(3, 1, 0), 2),
        (None, WorkerCounts(3, 2, 1), 1),  # a failed worker's work is still to be done
        (4, WorkerCounts(1, 1, 0), 3),  # three have not registered
        (2, WorkerCounts(3, 3, 0), 0),  # more came than expected
    ],
)
def test_remaining_workers_counts_everyone_with_unfinished_work(
    expected_workers: int | None, counts: WorkerCounts, remaining: int
) -> None:
    assert remaining_workers(expected_workers, counts) == remaining


@pytest.mark.parametrize(
    ("counts", "status"),
    [
        (WorkerCounts(0, 0, 0), "created"),
        (WorkerCounts(2, 0, 0), "running"),
        (WorkerCounts(2, 0, 1), "running"),
        (WorkerCounts(2, 1, 1), "failed"),
        (WorkerCounts(1, 0, 1), "failed"),
    ],
)
def test_a_swarm_has_failed_if_a_worker_failed_and_none_is_active(
    counts: WorkerCounts, status: str
) -> None:
    assert swarm_status(SWARM, counts) == status


def test_a_swarm_is_complete_once_marked_completed() -> None:
    assert swarm_status(SWARM._replace(completed_at_ms=5), WorkerCounts(2, 2, 0)) == "complete"


@pytest.mark.parametrize(
    ("tasks", "has_workers", "status"),
    [
        (TaskCounts(open=2), False, "created"),
        (TaskCounts(open=1, active=1), True, "running"),
        (TaskCounts(queued=1, done=1), True, "running"),
        (TaskCounts(queued=1, done=1), False, "waiting"),  # its run has ended
        (TaskCounts(open=1, failed=1), True, "waiting"),
        (TaskCounts(done=1, failed=1), True, "failed"),
        (TaskCounts(done=1, cancelled=1), False, "complete"),
    ],
)
def test_the_status_follows_from_the_tasks_of_the_bus(
    tasks: TaskCounts, has_workers: bool, status: str
) -> None:
    none = WorkerCounts(0, 0, 0)
    attention = SwarmAttention(has_workers=has_workers)
    assert swarm_status(SWARM, none, tasks, attention) == status
    complete = SWARM._replace(completed_at_ms=5)
    both = swarm_status(complete, WorkerCounts(1, 1, 0), tasks, attention)
    assert both == ("waiting" if status == "created" else status)
    assert swarm_status(SWARM, WorkerCounts(1, 0, 0), tasks) == "running"


@pytest.mark.parametrize(
    ("tasks", "attention", "status"),
    [
        (TaskCounts(open=2), SwarmAttention(has_workers=False, is_held=True), "waiting"),
        (TaskCounts(done=2), SwarmAttention(reviews=1), "waiting"),
        (TaskCounts(done=2), SwarmAttention(has_workers=False, to_land=1), "waiting"),
        (TaskCounts(done=2), SwarmAttention(to_land=1), "running"),
        (TaskCounts(done=2), SwarmAttention(is_held=True), "complete"),
        (TaskCounts(active=1), SwarmAttention(has_workers=False), "waiting"),  # no server runs
    ],
)
def test_a_swarm_waits_while_a_person_can_do_something(
    tasks: TaskCounts, attention: SwarmAttention, status: str
) -> None:
    assert swarm_status(SWARM, WorkerCounts(0, 0, 0), tasks, attention) == status


def test_counts_are_derived_from_the_states() -> None:
    states = {
        WorkerState.ASSIGNED: 1,
        WorkerState.EXECUTING: 2,
        WorkerState.COMPLETE: 3,
        WorkerState.FAILED: 4,
    }
    assert WorkerCounts.from_states(states) == WorkerCounts(10, 3, 4)
