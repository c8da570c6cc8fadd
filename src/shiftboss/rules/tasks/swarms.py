"""Swarms: how many workers remain, and the status of the swarm."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

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


def remaining_workers(workers_expected: int | None, counts: WorkerCounts) -> int:
    """Workers that are not complete. Failed workers count, because their work is not done."""
    return max(workers_expected or 0, counts.registered) - counts.complete


def swarm_status(swarm: Swarm, counts: WorkerCounts) -> str:
    """created, running, complete, or failed (some failed and no other is still working)."""
    if swarm.completed_at_ms is not None:
        return "complete"
    if counts.failed and counts.failed + counts.complete == counts.registered:
        return "failed"
    return "running" if counts.registered else "created"
