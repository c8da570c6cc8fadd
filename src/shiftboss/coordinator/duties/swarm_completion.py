"""Completes swarms with tasks of the bus when nothing in them is left to do, and opens them again.

A swarm is checked when nothing has changed in it for some seconds, so that work that comes one
task at a time does not complete it again and again, and reports cost nothing more. Completions that
were missed while no server was up are found at the start.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import ClassVar, Final

from shiftboss.coordinator.clock import Clock
from shiftboss.coordinator.duties.duty_record import DutyRecord
from shiftboss.coordinator.event_hub import Hub
from shiftboss.coordinator.swarms import completion
from shiftboss.errors import ShiftbossError
from shiftboss.protocol.bus import DEFAULT_SWARM
from shiftboss.protocol.events import Event, EventKind
from shiftboss.store.port import Store, Transaction

log = logging.getLogger(__name__)

QUIET_SECONDS: Final = 5.0
PAUSE_SECONDS_MIN: Final = 0.01
STOP_SECONDS_MAX: Final = 5.0
SWARMS_PER_PAGE: Final = 50
# More than this is looked for in the store.
SWARMS_REMEMBERED_MAX: Final = 10_000

# The events that can end the last work of a swarm, and those that give it new work.
CHANGES: Final = (
    EventKind.TASK_ADDED,
    EventKind.TASK_QUEUED,
    EventKind.TASK_REOPENED,
    EventKind.TASK_DONE,
    EventKind.TASK_FAILED,
    EventKind.TASK_CANCELLED,
    EventKind.TASK_LANDED,
    EventKind.CLAIM_ACCEPTED,
    EventKind.QUESTION_ASKED,
    EventKind.QUESTION_ANSWERED,
    EventKind.SCOPE_REQUESTED,
    EventKind.SCOPE_DECIDED,
    EventKind.REVIEW_REQUESTED,
    EventKind.REVIEW_APPROVED,
    EventKind.REVIEW_REJECTED,
    EventKind.WORKER_COMPLETE,
    EventKind.WORKER_ERROR,
)


class SwarmCompletion:
    # It does not matter which server does it: the swarm is locked and checked again. So a server
    # that ends can do it for the swarms that it has changed.
    on_every_server: ClassVar[bool] = True

    def __init__(self, store: Store, clock: Clock, hub: Hub, elapsed: Callable[[], float]) -> None:
        self._store = store
        self._clock = clock
        self._elapsed = elapsed
        # When each changed swarm has changed last.
        self._changed: dict[str, float] = {}
        self._has_missed_some = False
        self._wake = asyncio.Event()
        self.record = DutyRecord(type(self).__name__, elapsed=elapsed)
        for kind in CHANGES:
            hub.listen(kind, self._on_change)

    def _on_change(self, event: Event) -> None:
        if event.swarm_id == DEFAULT_SWARM:
            return  # it never completes
        if len(self._changed) >= SWARMS_REMEMBERED_MAX:
            self.catch_up()
        else:
            self._changed[event.swarm_id] = self._elapsed()
            self._wake.set()

    def catch_up(self) -> None:
        """Changes may have been missed: look at every swarm."""
        self._has_missed_some = True
        self._wake.set()

    async def run(self) -> None:
        self.catch_up()
        while True:
            try:
                await self._run_next()
            except ShiftbossError as error:
                log.warning("completing swarms failed, will try again: %s", error)
                await self._start_over()
            except Exception:
                log.exception("completing swarms failed, will try again")
                await self._start_over()

    async def _start_over(self) -> None:
        self.catch_up()
        await asyncio.sleep(QUIET_SECONDS)

    async def _run_next(self) -> None:
        if self._has_missed_some:
            with self.record.round():
                await self.find_missed()
        elif self._changed:
            with self.record.round():
                await self.settle_quiet()
            await self._wait_for_quiet()
        else:
            self._wake.clear()
            await self._wake.wait()

    async def settle_quiet(self) -> None:
        """Look at the swarms in which nothing has changed for some time."""
        quiet_since = self._elapsed() - QUIET_SECONDS
        for swarm_id in [name for name, at in self._changed.items() if at <= quiet_since]:
            try:
                await self._settle_changed(swarm_id)
            except ShiftbossError as error:
                # The others have their turn first.
                self._changed[swarm_id] = self._elapsed()
                facts = {"facts": {"swarm": swarm_id}}
                log.warning(
                    "completing swarm %s failed, will try again: %s", swarm_id, error, extra=facts
                )

    async def _wait_for_quiet(self) -> None:
        if self._changed:
            next_at = min(self._changed.values()) + QUIET_SECONDS
            await asyncio.sleep(max(next_at - self._elapsed(), PAUSE_SECONDS_MIN))

    async def settle_now(self) -> None:
        """Look at all changed swarms, without waiting for more: the server ends."""
        try:
            async with asyncio.timeout(STOP_SECONDS_MAX):
                for swarm_id in list(self._changed):
                    await self._settle_changed(swarm_id)
        except (ShiftbossError, TimeoutError) as error:
            log.warning("swarms may complete after the next start only: %s", error)

    async def _settle_changed(self, swarm_id: str) -> None:
        changed_at = self._changed[swarm_id]
        if await self._store.read(lambda tx: completion.is_due(tx, tx.swarm(swarm_id))):
            await self._settle(swarm_id)
        if self._changed.get(swarm_id) == changed_at:
            del self._changed[swarm_id]

    async def _settle(self, swarm_id: str) -> None:
        now_ms = self._clock()
        await self._store.write(
            partial(completion.settle, swarm_id=swarm_id, now_ms=now_ms), swarm_id
        )

    async def find_missed(self) -> None:
        """Look for swarms to change in the whole store, a page at a time."""
        self._has_missed_some = False
        before: tuple[int, str] | None = None
        while True:
            due, before = await self._store.read(partial(_page, before=before))
            for swarm_id in due:
                self._changed[swarm_id] = self._elapsed() - QUIET_SECONDS
            if before is None:
                break


def _page(
    tx: Transaction, before: tuple[int, str] | None
) -> tuple[list[str], tuple[int, str] | None]:
    return completion.page_of_due_swarms(tx, before, SWARMS_PER_PAGE)
