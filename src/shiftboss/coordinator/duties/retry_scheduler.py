"""Makes promised retries happen: one `retry_due` event when the time of each has come.

Sleeps until the earliest due time and is woken by the error that sets an earlier one. What is
scheduled lies in the store, so a restart forgets nothing.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial

from shiftboss.coordinator import failures
from shiftboss.coordinator.clock import Clock
from shiftboss.coordinator.hub import Hub
from shiftboss.errors import ShiftbossError
from shiftboss.protocol.events import Event, EventKind
from shiftboss.store.port import Store, Transaction

log = logging.getLogger(__name__)

DUE_PER_ROUND_MAX = 200
# After a failed round, and the longest sleep in any case: clocks are set, laptops are closed.
PAUSE_AFTER_FAILURE_SECONDS = 5.0
SLEEP_SECONDS_MAX = 60.0


class RetryScheduler:
    def __init__(self, store: Store, clock: Clock, hub: Hub) -> None:
        self._store = store
        self._clock = clock
        self._changed = asyncio.Event()
        hub.listen(EventKind.WORKER_ERROR, self._hear)

    def _hear(self, _event: Event) -> None:
        self._changed.set()

    async def run(self) -> None:
        while True:
            try:
                sleep_seconds = await self.run_once()
            except ShiftbossError as error:
                log.warning("retries wait: %s", error)
                sleep_seconds = PAUSE_AFTER_FAILURE_SECONDS
            try:
                async with asyncio.timeout(sleep_seconds):
                    await self._changed.wait()
            except TimeoutError:
                pass

    async def run_once(self) -> float:
        """Fire what is due; how long nothing else will be."""
        self._changed.clear()
        now_ms = self._clock()
        due = await self._store.read(lambda tx: tx.due_retries(now_ms, DUE_PER_ROUND_MAX))
        for retry in due:
            fire = partial(failures.fire_retry, planned=retry, now_ms=now_ms)
            await self._store.write(fire, retry.swarm_id)
        next_at_ms = await self._store.read(_next_retry_at_ms)
        if next_at_ms is None:
            return SLEEP_SECONDS_MAX
        return min(max(next_at_ms - self._clock(), 0) / 1000, SLEEP_SECONDS_MAX)


def _next_retry_at_ms(tx: Transaction) -> int | None:
    return tx.next_retry_at_ms()
