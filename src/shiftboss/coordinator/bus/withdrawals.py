"""Questions that nobody waits for anymore, because their attempt has ended."""

from __future__ import annotations

from shiftboss.protocol.events import EventKind
from shiftboss.store.port import Transaction


def withdraw_questions(
    tx: Transaction, swarm_id: str, task_id: str, epoch: int, now_ms: int
) -> None:
    """Close the open questions of the task, if there are any."""
    if tx.withdraw_questions(swarm_id, task_id, epoch, now_ms):
        tx.add_event(
            swarm_id,
            EventKind.QUESTIONS_WITHDRAWN,
            now_ms,
            {"bead_id": task_id, "epoch": epoch},
            task_id=task_id,
        )
