"""Use case of the lease keeper: an attempt whose lease has run out is over."""

from __future__ import annotations

from shiftboss.coordinator.dispatch import drain, end_attempt, enqueue, free_worker
from shiftboss.protocol.states import WorkerState
from shiftboss.rules.tasks.tasks import OFFER_SECONDS
from shiftboss.store.port import Transaction

OFFER_MS = OFFER_SECONDS * 1000


def expire(tx: Transaction, swarm_id: str, task_id: str, epoch: int, now_ms: int) -> bool:
    """Take the task back and queue it. False when it was renewed or ended in the meantime.

    A worker that let an offer lapse gets no more before it shows a sign of life.
    """
    if tx.take_swarm(swarm_id) is None:
        return False
    assignment = tx.assignment(swarm_id, task_id)
    task = tx.task(swarm_id, task_id)
    if (
        assignment is None
        or task is None
        or assignment.epoch != epoch
        or assignment.lease_expires_at_ms is None
        or assignment.lease_expires_at_ms > now_ms
    ):
        return False
    offered = assignment.state is WorkerState.ASSIGNED
    end_attempt(tx, assignment, "offer_expired" if offered else "lease_expired", now_ms)
    free_worker(tx, assignment, now_ms, available=False)
    enqueue(tx, task, now_ms)
    drain(tx, swarm_id, now_ms)
    return True
