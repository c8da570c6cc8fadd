"""Deleting a swarm that is over, in small transactions. Its receipts stay."""

from __future__ import annotations

from typing import Final

from shiftboss.coordinator.swarms.swarms import status
from shiftboss.errors import Conflict
from shiftboss.protocol.bus import DEFAULT_SWARM
from shiftboss.store.port import Transaction

EVENTS_PER_TRANSACTION_MAX: Final = 500


def delete_some(tx: Transaction, swarm_id: str) -> bool:
    """Delete one portion. True when nothing is left. Raises Conflict if the swarm is not over."""
    if tx.take_swarm(swarm_id) is None:
        return True
    if swarm_id == DEFAULT_SWARM:
        raise Conflict("the default swarm always exists; nothing was changed", field="swarm_id")
    seen = status(tx, swarm_id, frozenset()).status
    if seen != "complete":
        raise Conflict(
            f"swarm {swarm_id} is {seen}, and only a complete one can be deleted; nothing was "
            "changed",
            field="swarm_id",
            hint=f"`shiftboss status {swarm_id}` says what is left to do",
        )
    if tx.delete_events(swarm_id, EVENTS_PER_TRANSACTION_MAX):
        return False
    tx.delete_swarm(swarm_id)
    return True
