"""Deleting swarms, in small transactions. Their receipts stay."""

from __future__ import annotations

from typing import Final

from shiftboss.coordinator.bus.tasks import cancel
from shiftboss.coordinator.swarms.live_work import FINISHED, live_work
from shiftboss.coordinator.swarms.swarms import existing
from shiftboss.errors import Conflict
from shiftboss.protocol.bus import CancelTaskRequest
from shiftboss.protocol.runs import DeleteSwarmAnswer
from shiftboss.store.port import Transaction

EVENTS_PER_TRANSACTION_MAX: Final = 500
TASKS_PER_TRANSACTION_MAX: Final = 50


def preview(tx: Transaction, swarm_id: str) -> DeleteSwarmAnswer:
    """The data that would be deleted. Raises UnknownSwarm."""
    existing(tx, swarm_id)
    last_event = tx.last_event(swarm_id)
    return DeleteSwarmAnswer(
        success=True,
        swarm_id=swarm_id,
        deleted=False,
        tasks=sum(tx.task_counts(swarm_id).values()),
        packets=sum(tx.state_counts(swarm_id).values()),
        last_event_id=last_event.event_id if last_event else 0,
        live=live_work(tx, swarm_id),
    )


def check_over(tx: Transaction, swarm_id: str) -> None:
    """Raises Conflict if anything of the swarm is not over."""
    live = live_work(tx, swarm_id)
    if live:
        raise Conflict(
            f"swarm {swarm_id} has {', '.join(live)}; nothing was deleted",
            field="swarm_id",
            hint=f"`shiftboss status {swarm_id}` shows its unfinished work; with --force it "
            "is deleted anyway",
            facts={"live": live},
        )


def delete_some(tx: Transaction, swarm_id: str, now_ms: int, *, force: bool = False) -> bool:
    """Delete one portion. True when nothing is left. Raises Conflict if the swarm is not over;
    with `force`, what is not over is cancelled first, so that its workers learn of it.

    The default swarm begins anew with its next task.
    """
    if tx.take_swarm(swarm_id) is None:
        return True
    if not force:
        check_over(tx, swarm_id)
    elif _cancel_portion(tx, swarm_id, now_ms):
        return False
    return delete_portion(tx, swarm_id)


def _cancel_portion(tx: Transaction, swarm_id: str, now_ms: int) -> bool:
    """False when no task is unfinished. Waiting tasks come before tasks in progress: otherwise a
    worker whose task is cancelled would get the next one."""
    if not tx.has_unfinished_tasks(swarm_id):
        return False
    for status in ("open", "queued", "active"):
        tasks = tx.tasks_with_status(swarm_id, status, TASKS_PER_TRANSACTION_MAX)
        for task in tasks:
            cancel(
                tx,
                CancelTaskRequest(
                    swarm_id=swarm_id, bead_id=task.task_id, reason="the swarm is being deleted"
                ),
                now_ms,
            )
        if tasks:
            return True
    return False


def delete_portion(tx: Transaction, swarm_id: str) -> bool:
    """Events first, then the tasks, all of which are finished, at last the swarm."""
    if tx.delete_events(swarm_id, EVENTS_PER_TRANSACTION_MAX):
        return False
    finished = [
        task
        for status in sorted(FINISHED)
        for task in tx.tasks_with_status(swarm_id, status, TASKS_PER_TRANSACTION_MAX)
    ]
    for task in finished[:TASKS_PER_TRANSACTION_MAX]:
        tx.delete_task(swarm_id, task.task_id)
    if finished:
        return False
    tx.delete_swarm(swarm_id)
    return True
