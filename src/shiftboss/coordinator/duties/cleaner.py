"""Deletes swarms that completed long ago, and old idempotency answers, in small transactions."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import ClassVar

from shiftboss.coordinator.clock import Clock
from shiftboss.errors import ShiftbossError
from shiftboss.store.port import Transaction, Transactions

log = logging.getLogger(__name__)

ROUND_SECONDS = 3600.0
SWARMS_PER_ROUND_MAX = 100
EVENTS_PER_TRANSACTION_MAX = 500
DAY_MS = 86_400_000
ANSWERS_KEPT_MS = 7 * DAY_MS
ANSWERS_PER_TRANSACTION_MAX = 500


class Cleaner:
    on_every_server: ClassVar[bool] = False

    def __init__(self, store: Transactions, clock: Clock, retention_days: int) -> None:
        self._store = store
        self._clock = clock
        self._retention_ms = retention_days * DAY_MS

    async def run(self) -> None:
        while True:
            try:
                await self.run_once()
            except ShiftbossError as error:
                log.warning("cleaning failed, will try again: %s", error)
            except Exception:
                log.exception("cleaning failed, will try again")
            await asyncio.sleep(ROUND_SECONDS)

    async def run_once(self) -> int:
        """How many swarms were deleted."""
        limit_ms = self._clock() - self._retention_ms
        swarm_ids = await self._store.read(
            lambda tx: tx.swarms_completed_before(limit_ms, SWARMS_PER_ROUND_MAX)
        )
        for swarm_id in swarm_ids:
            delete_some = partial(_delete_some, swarm_id=swarm_id, limit_ms=limit_ms)
            while not await self._store.write(delete_some, swarm_id):
                pass
        await self._forget_answers()
        return len(swarm_ids)

    async def _forget_answers(self) -> None:
        """Repeats come within minutes; a week covers workers that were offline."""
        before_ms = self._clock() - ANSWERS_KEPT_MS
        forget = partial(_forget, before_ms=before_ms)
        while await self._store.write(forget, "") == ANSWERS_PER_TRANSACTION_MAX:
            pass


def _forget(tx: Transaction, before_ms: int) -> int:
    return tx.forget_answers(before_ms, ANSWERS_PER_TRANSACTION_MAX)


def _delete_some(tx: Transaction, swarm_id: str, limit_ms: int) -> bool:
    """Delete one portion. True when nothing is left, or when the swarm is active again."""
    swarm = tx.take_swarm(swarm_id)
    if swarm is None or swarm.completed_at_ms is None or swarm.completed_at_ms >= limit_ms:
        return True
    if tx.has_unfinished_tasks(swarm_id):
        return True
    if tx.delete_events(swarm_id, EVENTS_PER_TRANSACTION_MAX):
        return False
    tx.delete_swarm(swarm_id)
    return True
