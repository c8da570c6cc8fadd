"""Ends attempts whose lease or offer has expired, and queues their tasks again."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import ClassVar

from pydantic_core import from_json

from shiftboss.coordinator.bus import task_endings
from shiftboss.coordinator.clock import Clock
from shiftboss.coordinator.duties.suspend_detection import SuspendDetector
from shiftboss.coordinator.duties.timer import DUE_PER_ROUND_MAX, Timer
from shiftboss.coordinator.event_hub import Hub
from shiftboss.errors import ShiftbossError
from shiftboss.protocol.events import Event, EventKind
from shiftboss.rules.tasks.leases import GRACE_SECONDS, OFFER_MS
from shiftboss.store.port import Transactions

log = logging.getLogger(__name__)


class LeaseReaper(Timer):
    """After a renewal the reaper finds nothing to do at the old time, and sleeps again."""

    # Only the server that got a heartbeat with a short lease knows when it ends.
    on_every_server: ClassVar[bool] = True

    def __init__(
        self,
        store: Transactions,
        clock: Clock,
        hub: Hub,
        suspend_detector: SuspendDetector | None = None,
    ) -> None:
        super().__init__(store, clock, hub)
        self._suspend_detector = suspend_detector or SuspendDetector()
        self._wakes_at_ms: int | None = None
        hub.listen(EventKind.TASK_ASSIGNED, self._on_offer)
        hub.listen(EventKind.TASK_STARTED, self._on_lease)
        # The usual lease replaces the long one of a blocked worker.
        hub.listen(EventKind.QUESTION_ANSWERED, self._on_waking_event)
        # A lease runs again after the verification.
        hub.listen(EventKind.CLAIM_REFUSED, self._on_waking_event)

    def _on_offer(self, event: Event) -> None:
        self.expect_end(event.at_ms + OFFER_MS)

    def _on_lease(self, event: Event) -> None:
        self.expect_end(from_json(event.data)["lease_expires_at"])

    def expect_end(self, at_ms: int | None) -> None:
        """Wake up in time for a lease that ends then. Most end long after the next round."""
        if at_ms is not None and (self._wakes_at_ms is None or at_ms < self._wakes_at_ms):
            self._changed.set()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._suspend_detector.run())
            await super().run()

    async def act(self, now_ms: int) -> None:
        if self._suspend_detector.take():
            await self._renew_expired(now_ms)
        expired = await self.store.read(lambda tx: tx.expired_leases(now_ms, DUE_PER_ROUND_MAX))
        for swarm_id, task_id, epoch in expired:
            expire = partial(
                task_endings.expire, swarm_id=swarm_id, task_id=task_id, epoch=epoch, now_ms=now_ms
            )
            await self.store.write(expire, swarm_id)

    async def _renew_expired(self, now_ms: int) -> None:
        """No lease ends before this was done."""
        log.warning("the server was suspended: leases that expired during that time are renewed")
        try:
            await self.store.write(
                lambda tx: tx.renew_expired_leases(now_ms, GRACE_SECONDS), partition=""
            )
        except ShiftbossError:
            self._suspend_detector.put_back()
            raise

    async def next_at_ms(self) -> int | None:
        self._wakes_at_ms = await self.store.read(lambda tx: tx.next_lease_end_at_ms())
        return self._wakes_at_ms
