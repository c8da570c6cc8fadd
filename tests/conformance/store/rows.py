"""Complete rows for the tests of the stores, with overrides."""

from __future__ import annotations

from typing import Any

from shiftboss.protocol.events import Event, EventKind
from shiftboss.protocol.states import WorkerState
from shiftboss.rules.tasks.packets import Assignment
from shiftboss.rules.tasks.swarms import Swarm
from shiftboss.store.port import Retry, Transaction

SWARM = "swarm-1"
TASK = "packet-1"


def swarm(swarm_id: str = SWARM, **changes: Any) -> Swarm:
    whole = Swarm(
        swarm_id=swarm_id,
        feature="Anmeldung für Gäste ✓",
        manifest_path="/plans/login.json",
        auto_merge=True,
        notify_on_complete=False,
        workers_expected=3,
        created_at_ms=1_767_600_000_123,
        completed_at_ms=None,
    )
    return whole._replace(**changes)


def assignment(packet_id: int = 1, **changes: Any) -> Assignment:
    whole = Assignment(
        swarm_id=SWARM,
        task_id=f"packet-{packet_id}",
        epoch=1,
        state=WorkerState.ASSIGNED,
        packet_id=packet_id,
        worker="backend-api",
        worktree="/path/to/worktree",
        steps_total=10,
        steps_completed=0,
        retries_open=0,
        registered_at_ms=1_767_600_000_500,
        updated_at_ms=1_767_600_000_500,
        finished_at_ms=None,
        final_commit=None,
        tests_passed=None,
        review_passed=None,
        last_error=None,
    )
    return whole._replace(**changes)


def complete_assignment(packet_id: int = 1, **changes: Any) -> Assignment:
    done = assignment(packet_id)._replace(
        state=WorkerState.COMPLETE,
        steps_completed=10,
        finished_at_ms=1_767_600_001_000,
        final_commit="def5678901",
        tests_passed=True,
        review_passed=False,
    )
    return done._replace(**changes)


def retry(step_id: str = "task-1", **changes: Any) -> Retry:
    return Retry(SWARM, TASK, step_id, 1, "scheduled", 1_000)._replace(**changes)


def add_event(tx: Transaction, swarm_id: str = SWARM, **data: object) -> Event:
    """Add an event with the swarm locked, like every use case."""
    tx.take_swarm(swarm_id)
    return tx.add_event(swarm_id, EventKind.PROGRESS_UPDATE, 1_767_600_000_600, data)


def add_swarm_with_event(tx: Transaction, swarm_id: str = SWARM) -> Event:
    assert tx.add_swarm(swarm(swarm_id))
    return tx.add_event(swarm_id, EventKind.SWARM_CREATED, 1_767_600_000_123, {})
