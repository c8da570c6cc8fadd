"""When a swarm with tasks of the bus completes, and when it is open again.

A swarm completes when nothing in it is left to do: its tasks are done, failed or cancelled, the
accepted work of its plan has landed, nothing waits for a person. New work opens it again. A swarm
of packets only completes with its last packet. The default swarm never does: it is there for
whatever comes next, and its old tasks are deleted one by one.
"""

from __future__ import annotations

from shiftboss.coordinator.swarms import overview
from shiftboss.coordinator.swarms.live_work import live_work
from shiftboss.protocol.bus import DEFAULT_SWARM
from shiftboss.protocol.events import EventKind
from shiftboss.rules.tasks.swarms import Swarm, WorkerCounts, remaining_workers
from shiftboss.store.port import SwarmRow, Transaction


def is_settled(tx: Transaction, swarm: Swarm) -> bool | None:
    """Whether nothing is left to do. None: the tasks do not decide it."""
    swarm_id = swarm.swarm_id
    if swarm_id == DEFAULT_SWARM:
        return None
    if tx.has_unfinished_tasks(swarm_id):
        return False
    if not overview.task_counts(tx, swarm_id).total:
        return None
    packets = WorkerCounts.from_states(tx.state_counts(swarm_id))
    return not remaining_workers(swarm.workers_expected, packets) and not live_work(tx, swarm_id)


def is_due(tx: Transaction, swarm: Swarm | None) -> bool:
    """Whether `settle` would change the swarm."""
    if swarm is None or _is_untouched(tx, swarm):
        return False
    settled = is_settled(tx, swarm)
    return settled is not None and settled != (swarm.completed_at_ms is not None)


def _is_untouched(tx: Transaction, swarm: Swarm) -> bool:
    """Whether a complete swarm has no event since: one look-up for each of the many old swarms."""
    if swarm.completed_at_ms is None:
        return False
    last_event = tx.last_event(swarm.swarm_id)
    return last_event is not None and last_event.kind == EventKind.SWARM_COMPLETE.value


def settle(tx: Transaction, swarm_id: str, now_ms: int) -> bool:
    """Complete the swarm, or open it again; False if it is as it should be. It has been complete
    since its last event."""
    swarm = tx.take_swarm(swarm_id)
    if swarm is None or not is_due(tx, swarm):
        return False
    if swarm.completed_at_ms is not None:
        tx.set_swarm_completed(swarm_id, None)
        tx.add_event(swarm_id, EventKind.SWARM_REOPENED, now_ms, {"swarm_id": swarm_id})
        return True
    last_event = tx.last_event(swarm_id)
    tx.set_swarm_completed(swarm_id, last_event.at_ms if last_event else now_ms)
    tasks = overview.task_counts(tx, swarm_id)
    tx.add_event(
        swarm_id,
        EventKind.SWARM_COMPLETE,
        now_ms,
        {
            "swarm_id": swarm_id,
            "done": tasks.done,
            "failed": tasks.failed,
            "cancelled": tasks.cancelled,
        },
    )
    return True


def page_of_due_swarms(
    tx: Transaction, before: tuple[int, str] | None, limit: int
) -> tuple[list[str], tuple[int, str] | None]:
    """The due ones among the next `limit` swarms, and where the next page starts."""
    rows = tx.swarms_before(before, limit)
    due = [row.swarm.swarm_id for row in rows if is_due(tx, row.swarm)]
    return due, page_mark(rows, limit)


def page_mark(rows: list[SwarmRow], limit: int) -> tuple[int, str] | None:
    if len(rows) < limit:
        return None
    return rows[-1].swarm.created_at_ms, rows[-1].swarm.swarm_id
