"""A duty that acts at times that lie in the store.

Sleeps until the earliest of them and is woken by the event that sets an earlier one. The times
are durable, so a restart forgets nothing; nothing is polled.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from typing import ClassVar

from shiftboss.coordinator.clock import Clock
from shiftboss.coordinator.hub import Hub
from shiftboss.errors import ShiftbossError
from shiftboss.protocol.events import Event, EventKind
from shiftboss.store.port import Store

log = logging.getLogger(__name__)

DUE_PER_ROUND_MAX = 200
PAUSE_AFTER_FAILURE_SECONDS = 5.0
# The longest sleep in any case: clocks are set, laptops are closed.
SLEEP_SECONDS_MAX = 60.0


class Timer(ABC):
    # Else one server of those on a database has the duty.
    on_every_server: ClassVar[bool] = False

    def __init__(self, store: Store, clock: Clock, hub: Hub, *wakers: EventKind) -> None:
        self.store = store
        self.clock = clock
        self._changed = asyncio.Event()
        for kind in wakers:
            hub.listen(kind, self._hear)

    def _hear(self, _event: Event) -> None:
        self.wake()

    def wake(self) -> None:
        """A time in the store may have been set that no event tells of."""
        self._changed.set()

    async def run(self) -> None:
        while True:
            try:
                sleep_seconds = await self.run_once()
            except ShiftbossError as error:
                log.warning("%s waits: %s", type(self).__name__, error)
                sleep_seconds = PAUSE_AFTER_FAILURE_SECONDS
            except Exception:
                log.exception("%s waits", type(self).__name__)
                sleep_seconds = PAUSE_AFTER_FAILURE_SECONDS
            try:
                async with asyncio.timeout(sleep_seconds):
                    await self._changed.wait()
            except TimeoutError:
                pass

    async def run_once(self) -> float:
        """Do what is due; how many seconds nothing else will be."""
        self._changed.clear()
        await self.act(self.clock())
        next_at_ms = await self.next_at_ms()
        if next_at_ms is None:
            return SLEEP_SECONDS_MAX
        return min(max(next_at_ms - self.clock(), 0) / 1000, SLEEP_SECONDS_MAX)

    @abstractmethod
    async def act(self, now_ms: int) -> None:
        """Do what is due, at most DUE_PER_ROUND_MAX of it."""

    @abstractmethod
    async def next_at_ms(self) -> int | None:
        """The earliest time at which there is something to do."""
