"""Selects rows that are old enough to be deleted: whole swarms, and finished tasks and events of
the others.

Receipts are kept forever, and so is everything that is not over, or that something refers to that
is not over.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from shiftboss.coordinator.swarms.completion import page_mark
from shiftboss.coordinator.swarms.deletion import delete_portion
from shiftboss.coordinator.swarms.live_work import FINISHED, is_task_needed, live_work
from shiftboss.protocol.bus import DEFAULT_SWARM
from shiftboss.protocol.events import EventKind
from shiftboss.store.port import Transaction


class SwarmPage(NamedTuple):
    """Swarms that are old enough to have something to delete; `over` are deleted as a whole."""

    over: list[str]
    others: list[str]
    next_before: tuple[int, str] | None


def page_of_swarms(
    tx: Transaction, before: tuple[int, str] | None, before_ms: int, limit: int
) -> SwarmPage:
    """The swarms created before `before`, newest first."""
    rows = tx.swarms_before(before or (before_ms, ""), limit)
    over = [row.swarm.swarm_id for row in rows if is_over(tx, row.swarm.swarm_id, before_ms)]
    others = [row.swarm.swarm_id for row in rows if row.swarm.swarm_id not in over]
    return SwarmPage(over, others, page_mark(rows, limit))


def is_over(tx: Transaction, swarm_id: str, before_ms: int) -> bool:
    """Whether nothing of the swarm is left to do, and nothing has happened in it since. The
    default swarm is never over."""
    return swarm_id != DEFAULT_SWARM and is_idle(tx, swarm_id, before_ms)


def is_idle(tx: Transaction, swarm_id: str, before_ms: int) -> bool:
    if _last_change_ms(tx, swarm_id) >= before_ms:
        return False
    if any(worker.last_activity_at_ms >= before_ms for worker, _ in tx.workers(swarm_id)):
        return False
    return not live_work(tx, swarm_id)


def _last_change_ms(tx: Transaction, swarm_id: str) -> int:
    """A swarm completes when its last change is noticed: after an upgrade, perhaps weeks later."""
    last_event, swarm = tx.last_event(swarm_id), tx.swarm(swarm_id)
    if last_event is None:
        return 0
    if last_event.kind == EventKind.SWARM_COMPLETE.value and swarm and swarm.completed_at_ms:
        return swarm.completed_at_ms
    return last_event.at_ms


def delete_old_swarm(tx: Transaction, swarm_id: str, before_ms: int) -> bool | None:
    """Delete one portion. True when nothing is left, None when the swarm is in use again. Workers
    that poll an empty queue cause no events."""
    if tx.take_swarm(swarm_id) is None:
        return True
    if tx.polls.parked_workers(swarm_id) or not is_over(tx, swarm_id, before_ms):
        return None
    return delete_portion(tx, swarm_id)


def prune_events(tx: Transaction, swarm_id: str, before_ms: int, limit: int) -> int:
    """Delete old events; how many. A packet that starts over repeats its reports, and they are
    found by the events of its attempt: those stay until it is over."""
    if tx.take_swarm(swarm_id) is None:
        return 0
    attempts = [
        attempt.registered_at_ms
        for attempt in tx.assignments(swarm_id)
        if attempt.finished_at_ms is None
    ]
    return tx.prune_events(swarm_id, min([before_ms, *attempts]), limit)


def old_tasks(
    tx: Transaction, swarm_id: str, after: str, before_ms: int, limit: int
) -> tuple[list[str], str | None]:
    """The finished tasks among the next `limit`, and the id to continue after. A plan refers to its
    tasks until all of it is over: a run that continues would start them again."""
    is_needed = tx.plan_run(swarm_id) is not None and not is_idle(tx, swarm_id, before_ms)
    if is_needed or _has_all_events(tx, swarm_id):
        return [], None
    tasks = tx.tasks_after(swarm_id, after, limit)
    old = [
        task.task_id for task in tasks if task.status in FINISHED and task.updated_at_ms < before_ms
    ]
    return old, tasks[-1].task_id if len(tasks) == limit else None


def prune_tasks(tx: Transaction, swarm_id: str, task_ids: Sequence[str], before_ms: int) -> int:
    """Delete those that are still old and not needed; how many."""
    if tx.take_swarm(swarm_id) is None:
        return 0
    deleted = 0
    for task_id in task_ids:
        task = tx.task(swarm_id, task_id)
        if task is None or task.status not in FINISHED or task.updated_at_ms >= before_ms:
            continue
        if not is_task_needed(tx, task):
            tx.delete_task(swarm_id, task_id)
            deleted += 1
    return deleted


def prune_workers(tx: Transaction, swarm_id: str, before_ms: int, limit: int) -> int:
    """Delete workers that have had no task since, and do not poll here; how many. One that polls
    on another server registers again."""
    if tx.take_swarm(swarm_id) is None or _has_all_events(tx, swarm_id):
        return 0
    polling = tx.polls.parked_workers(swarm_id)
    idle = [
        worker.name
        for worker, _ in tx.workers(swarm_id)
        if worker.task_id is None
        and worker.last_activity_at_ms < before_ms
        and worker.name not in polling
    ]
    for name in idle[:limit]:
        tx.delete_worker(swarm_id, name)
    return len(idle[:limit])


def _has_all_events(tx: Transaction, swarm_id: str) -> bool:
    """Then the events describe every task, so that both can be compared. None is deleted."""
    return any(event.event_id == 1 for event in tx.events_after(swarm_id, 0, 1))
