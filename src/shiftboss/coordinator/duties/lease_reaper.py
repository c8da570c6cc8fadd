"""Takes tasks back whose worker has shown no sign of life: when a lease or an offer runs out."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

from pydantic_core import from_json

from shiftboss.coordinator.bus import task_endings
from shiftboss.coordinator.clock import Clock
from shiftboss.coordinator.duties.timer import DUE_PER_ROUND_MAX, Timer
from shiftboss.coordinator.hub import Hub
from shiftboss.protocol.events import Event, EventKind
from shiftboss.rules.tasks.leases import OFFER_MS
from shiftboss.store.port import Store


class LeaseReaper(Timer):
    """A renewal moves the end of a lease to later: the keeper finds nothing and sleeps again."""

    # The short lease that a heartbeat asks for is told to the keeper of the server that got it, and
    # to no other.
    on_every_server: ClassVar[bool] = True

    def __init__(self, store: Store, clock: Clock, hub: Hub) -> None:
        super().__init__(store, clock, hub)
        self._awake_at_ms: int | None = None
        hub.listen(EventKind.TASK_ASSIGNED, self._hear_of_offer)
        hub.listen(EventKind.TASK_STARTED, self._hear_of_lease)
        # The long lease of a blocked worker gives way to its usual one.
        hub.listen(EventKind.QUESTION_ANSWERED, self._hear)
        # A lease runs again that stood still during the verification.
        hub.listen(EventKind.CLAIM_REFUSED, self._hear)

    def _hear_of_offer(self, event: Event) -> None:
        self.expect_end(event.at_ms + OFFER_MS)

    def _hear_of_lease(self, event: Event) -> None:
        self.expect_end(from_json(event.data)["lease_expires_at"])

    def expect_end(self, at_ms: int | None) -> None:
        """A lease ends then. Most end long after the next round; a launcher's can be short."""
        if at_ms is not None and (self._awake_at_ms is None or at_ms < self._awake_at_ms):
            self._changed.set()

    async def act(self, now_ms: int) -> None:
        expired = await self.store.read(lambda tx: tx.expired_leases(now_ms, DUE_PER_ROUND_MAX))
        for swarm_id, task_id, epoch in expired:
            expire = partial(
                task_endings.expire, swarm_id=swarm_id, task_id=task_id, epoch=epoch, now_ms=now_ms
            )
            await self.store.write(expire, swarm_id)

    async def next_at_ms(self) -> int | None:
        self._awake_at_ms = await self.store.read(lambda tx: tx.next_lease_end_at_ms())
        return self._awake_at_ms
