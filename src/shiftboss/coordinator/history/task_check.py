"""Whether there is a task, or a packet, that a request can be about."""

from __future__ import annotations

from shiftboss.coordinator.swarms.swarms import check_exists
from shiftboss.errors import UnknownTask
from shiftboss.rules.tasks.tasks import is_reserved
from shiftboss.store.port import Transaction


def check_task_exists(tx: Transaction, swarm_id: str, task_id: str) -> None:
    """Raises UnknownSwarm or UnknownTask."""
    check_exists(tx, swarm_id)
    known = tx.task(swarm_id, task_id) or tx.assignment(swarm_id, task_id)
    if known is None and not is_reserved(task_id):
        raise UnknownTask(task_id)
