"""Why the last try to start a task was refused, kept for those who ask why it does not start."""

from __future__ import annotations

from shiftboss.errors import OwnershipOverlap, RepoBlocked
from shiftboss.rules.runs.records import SpawnRefusal
from shiftboss.store.port import Transaction

Refusal = OwnershipOverlap | RepoBlocked


def note_refusal(tx: Transaction, swarm_id: str, task_id: str, error: Refusal, now_ms: int) -> None:
    """For a task that exists and is open. The transaction that was refused has changed nothing, so
    this is another one, unless its use case continued."""
    if tx.take_swarm(swarm_id) is None:
        return
    task = tx.task(swarm_id, task_id)
    detail = reason_of(error)
    known = tx.spawn_refusal(swarm_id, task_id)
    if task is None or task.status != "open" or (known is not None and known.detail == detail):
        return
    holders = error.facts.get("holders") or error.facts.get("blockers") or []
    assert isinstance(holders, list)
    tx.put_spawn_refusal(SpawnRefusal(swarm_id, task_id, error.code, detail, holders, now_ms))


def reason_of(error: Refusal) -> str:
    return error.detail.removesuffix("; nothing was changed")
