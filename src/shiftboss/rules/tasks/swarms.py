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


class SwarmAttention(NamedTuple):
    """`has_workers`: workers of the bus have a task or ask for one. `is_held`: a question, a hold
    or another task keeps tasks from starting. `to_land`: accepted work of a plan that has not
    landed and waits for no review."""

    has_workers: bool = True
    is_held: bool = False
    reviews: int = 0
    to_land: int = 0


def swarm_status(
    swarm: Swarm,
    counts: WorkerCounts,
    tasks: TaskCounts = NO_TASKS,
    attention: SwarmAttention = SwarmAttention(),  # noqa: B008 - immutable
) -> str:
    """created, running, waiting, complete, or failed (some failed and nothing else is left).

    A swarm waits when work is left and nothing is being done about it: its run has ended, or what
    is left waits for a person.
    """
    if not tasks.total:
        return _status_of_packets(swarm, counts)
    packets_left = counts.registered - counts.complete - counts.failed
    at_work = tasks.active or tasks.queued or attention.to_land
    if packets_left or (at_work and attention.has_workers):
        return "running"
    if tasks.open == tasks.total and not counts.registered and not attention.is_held:
        return "created"
    if tasks.open or at_work or attention.reviews:
        return "waiting"
    return "failed" if tasks.failed or counts.failed else "complete"


def _status_of_packets(swarm: Swarm, counts: WorkerCounts) -> str:
    if swarm.completed_at_ms is not None:
        return "complete"
    if counts.failed and counts.failed + counts.complete == counts.registered:
        return "failed"
    return "running" if counts.registered else "created"
