"""Ends pauses at their time, and hands out the tasks that they held back."""

from __future__ import annotations

from functools import partial

from shiftboss.coordinator.clock import Clock
from shiftboss.coordinator.duties.timer import DUE_PER_ROUND_MAX, Timer
from shiftboss.coordinator.event_hub import Hub
from shiftboss.coordinator.runs import holds
from shiftboss.protocol.events import EventKind
from shiftboss.store.port import Transactions


class HoldExpiry(Timer):
    def __init__(self, store: Transactions, clock: Clock, hub: Hub) -> None:
        super().__init__(store, clock, hub, EventKind.DISPATCH_PAUSED)

    async def act(self, now_ms: int) -> None:
        for hold in await self.store.read(lambda tx: tx.ended_holds(now_ms, DUE_PER_ROUND_MAX)):
            await self.store.write(partial(holds.expire, seen=hold, now_ms=now_ms), hold.swarm_id)

    async def next_at_ms(self) -> int | None:
        return await self.store.read(lambda tx: tx.next_hold_end_at_ms())
