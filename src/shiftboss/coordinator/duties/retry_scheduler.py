"""Writes a `retry_due` event when a scheduled retry is due."""

from __future__ import annotations

from functools import partial

from shiftboss.coordinator.clock import Clock
from shiftboss.coordinator.duties.timer import DUE_PER_ROUND_MAX, Timer
from shiftboss.coordinator.event_hub import Hub
from shiftboss.coordinator.swarms import error_reports
from shiftboss.protocol.events import EventKind
from shiftboss.store.port import Transactions


class RetryScheduler(Timer):
    def __init__(self, store: Transactions, clock: Clock, hub: Hub) -> None:
        super().__init__(store, clock, hub, EventKind.WORKER_ERROR)

    async def act(self, now_ms: int) -> None:
        for retry in await self.store.read(lambda tx: tx.due_retries(now_ms, DUE_PER_ROUND_MAX)):
            fire = partial(error_reports.fire_retry, planned=retry, now_ms=now_ms)
            await self.store.write(fire, retry.swarm_id)

    async def next_at_ms(self) -> int | None:
        return await self.store.read(lambda tx: tx.next_retry_at_ms())
