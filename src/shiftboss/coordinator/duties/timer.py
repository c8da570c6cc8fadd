"""A duty that acts at times that are stored in the database.

It sleeps until the earliest of them, and an event that sets an earlier one wakes it. The times are
durable, so a restart loses nothing, and nothing is polled.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Iterable
from typing import ClassVar

from shiftboss.coordinator.clock import Clock
from shiftboss.coordinator.duties.duty_record import STUCK_SECONDS, DutyRecord
from shiftboss.coordinator.event_hub import Hub
from shiftboss.errors import ShiftbossError
from shiftboss.protocol.events import Event, EventKind
from shiftboss.store.port import Transactions

log = logging.getLogger(__name__)

DUE_PER_ROUND_MAX = 200
PAUSE_AFTER_FAILURE_SECONDS = 5.0
# Clocks are changed and laptops are suspended, so a duty never sleeps longer than this.
SLEEP_SECONDS_MAX = 60.0


async def run_all(jobs: Iterable[Awaitable[None]]) -> None:
    """Run all jobs to their end, then raise the first error: one that fails does not stop the
    others, and is tried again in the next round."""
    for result in await asyncio.gather(*jobs, return_exceptions=True):
        if isinstance(result, BaseException):
            raise result


class Timer(ABC):
    # Otherwise one of the servers on a database runs the duty.
    on_every_server: ClassVar[bool] = False
    # How long it may go without a success before it counts as stuck.
    stuck_seconds: ClassVar[float] = STUCK_SECONDS

    def __init__(self, store: Transactions, clock: Clock, hub: Hub, *wakers: EventKind) -> None:
        self.store = store
        self.clock = clock
        self.record = DutyRecord(type(self).__name__, self.stuck_seconds)
        self._changed = asyncio.Event()
        for kind in wakers:
            hub.listen(kind, self._on_waking_event)

    def _on_waking_event(self, _event: Event) -> None:
        self.wake()

    def wake(self) -> None:
        """Look again now: a time in the store may have been set without an event."""
        self._changed.set()

    async def run(self) -> None:
        while True:
            try:
                with self.record.round():
                    sleep_seconds = await self.run_once()
            except ShiftbossError as error:
                log.warning("%s failed, will try again: %s", type(self).__name__, error)
                sleep_seconds = PAUSE_AFTER_FAILURE_SECONDS
            except Exception:
                log.exception("%s failed, will try again", type(self).__name__)
                sleep_seconds = PAUSE_AFTER_FAILURE_SECONDS
            try:
                async with asyncio.timeout(sleep_seconds):
                    await self._changed.wait()
            except TimeoutError:
                pass

    async def run_once(self) -> float:
        """Do what is due; the seconds until something else is due."""
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
