"""Swarms: how many workers remain, and the status of the swarm."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from shiftboss.protocol.states import WorkerState


class Swarm(NamedTuple):
    swarm_id: str
    feature: str
    manifest_path: str
    auto_merge: bool
    notify_on_complete: bool
    workers_expected: int | None
    created_at_ms: int
    completed_at_ms: int | None


class WorkerCounts(NamedTuple):
    registered: int
    complete: int
    failed: int

    @classmethod
    def from_states(cls, counts: Mapping[WorkerState, int]) -> WorkerCounts:
        return cls(
            registered=sum(counts.values()),
            complete=counts.get(WorkerState.COMPLETE, 0),
            failed=counts.get(WorkerState.FAILED, 0),
        )


class TaskCounts(NamedTuple):
    """The tasks of the bus, by status."""

    open: int = 0
    queued: int = 0
    active: int = 0
    done: int = 0
    failed: int = 0
    cancelled: int = 0

    @property
    def total(self) -> int:
        return sum(self)


NO_TASKS: Final = TaskCounts()


def remaining_workers(workers_expected: int | None, counts: WorkerCounts) -> int:
    """Workers that are not complete. Failed workers count, because their work is not done."""
    return max(workers_expected or 0, counts.registered) - counts.complete


def swarm_status(
    swarm: Swarm,
    counts: WorkerCounts,
    tasks: TaskCounts = NO_TASKS,
    *,
    has_workers: bool = True,
) -> str:
    """created, running, waiting, complete, or failed (some failed and nothing else is left).

    A swarm waits when work is left and nothing is being done about it: its run has ended, or what
    is left waits for a person. `has_workers`: workers of the bus have a task or ask for one.
    """
    if not tasks.total:
        return _status_of_packets(swarm, counts)
    packets_left = counts.registered - counts.complete - counts.failed
    if tasks.active or packets_left or (tasks.queued and has_workers):
        return "running"
    if tasks.open == tasks.total and not counts.registered:
        return "created"
    if tasks.open or tasks.queued:
        return "waiting"
    return "failed" if tasks.failed or counts.failed else "complete"


def _status_of_packets(swarm: Swarm, counts: WorkerCounts) -> str:
    if swarm.completed_at_ms is not None:
        return "complete"
    if counts.failed and counts.failed + counts.complete == counts.registered:
        return "failed"
    return "running" if counts.registered else "created"
