"""Exports the traces of tasks: a duty of the leader, if traces are on.

It follows the events of each swarm behind their commits, as far as they were exported before, makes
the spans that they end, and hands them to a `SpanSink`. The store is the buffer: spans that a
collector does not accept are made again from the events, by this server or the next one, with the
same ids. Nothing else in the server knows of traces, and without them none of this runs.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from functools import partial
from typing import Final, Protocol

from pydantic_core import from_json

from shiftboss.coordinator.clock import Clock
from shiftboss.coordinator.duties.timer import Timer
from shiftboss.coordinator.event_hub import Hub
from shiftboss.errors import ShiftbossError
from shiftboss.protocol.events import Event, EventKind
from shiftboss.rules.traces.span import Span
from shiftboss.rules.traces.task_spans import TRACED_KINDS, SwarmSpans
from shiftboss.rules.traces.verification_spans import with_checks
from shiftboss.store.port import EventFilter, Transaction, Transactions

log = logging.getLogger(__name__)

SWARMS_MAX: Final = 10_000
EVENTS_PER_PAGE: Final = 500
REMEMBERED_SWARMS_MAX: Final = 200
FIRST_PAUSE_SECONDS: Final = 1.0
PAUSE_SECONDS_MAX: Final = 60.0
# A collector may be down for so long. What it takes none of after that, it may refuse for its
# content: it is dropped, and counted, so that it does not hold up what follows.
HELD_SECONDS_MAX: Final = 3600.0
# A server that stops gives its last spans this long: the landing of a run is one of them.
FLUSH_SECONDS: Final = 5.0


class SpanSink(Protocol):
    """Where spans go. `delay_seconds`: how long to gather them."""

    delay_seconds: float

    async def send(self, spans: Sequence[Span]) -> bool:
        """Whether they were taken. It does not block the event loop, and takes a bounded time."""
        ...

    def close(self) -> None: ...


class _Swarm:
    """`until`: the last event that `spans` has got. `held`: spans that were not taken yet, and the
    event that they end with."""

    def __init__(self, swarm_id: str) -> None:
        self.spans = SwarmSpans(swarm_id)
        self.until = 0
        self.held: tuple[Sequence[Span], int] | None = None


class TraceExport(Timer):
    """`exported` and `dropped` count spans, `failures` the tries of a collector that failed."""

    def __init__(self, store: Transactions, clock: Clock, hub: Hub, sink: SpanSink) -> None:
        super().__init__(store, clock, hub)
        self.exported = 0
        self.dropped = 0
        self.failures = 0
        self._sink = sink
        self._swarms: dict[str, _Swarm] = {}
        self._pending: dict[str, None] = {}
        self._is_running = False
        self._must_catch_up = True
        self._pause_seconds = 0.0
        self._held_since_ms: int | None = None
        self._timer: asyncio.TimerHandle | None = None
        for kind in TRACED_KINDS:
            hub.listen(EventKind(kind), self._note)

    def _note(self, event: Event) -> None:
        if not self._is_running:
            return  # another server exports them, or will find them in the store when it starts
        self._pending[event.swarm_id] = None
        if not self._pause_seconds:  # otherwise a later try is set already
            self._wake_later(self._sink.delay_seconds)

    def _wake_later(self, seconds: float) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(seconds, self._wake_now)

    def _wake_now(self) -> None:
        self._timer = None
        self.wake()

    def catch_up(self) -> None:
        """Events of other servers may have been missed."""
        self._must_catch_up = True
        self.wake()

    async def run(self) -> None:
        self._is_running = self._must_catch_up = True
        self._swarms.clear()  # another server may have exported since
        try:
            await super().run()
        finally:
            self._is_running = False
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    async def flush(self) -> None:
        """Export what is due before the server ends. The next leader exports the rest."""
        try:
            async with asyncio.timeout(FLUSH_SECONDS):
                # Also for what the last requests have led to, when the duty had ended.
                self._must_catch_up = True
                await self.act(self.clock())
        except TimeoutError:
            log.warning("some spans will be exported by the next server")
        except ShiftbossError as error:
            log.warning("some spans will be exported by the next server: %s", error)

    def close(self) -> None:
        self._sink.close()

    async def act(self, now_ms: int) -> None:
        if self._must_catch_up:
            self._must_catch_up = False
            try:
                await self._note_pending()
            except BaseException:
                self._must_catch_up = True
                raise
        for swarm_id in list(self._pending):
            del self._pending[swarm_id]
            try:
                is_done = await self._export(swarm_id, now_ms)
            except BaseException:
                self._pending[swarm_id] = None
                raise
            if not is_done:
                self._pending[swarm_id] = None
                self._wake_later(self._pause_seconds)
                return

    async def next_at_ms(self) -> int | None:
        return None

    async def _note_pending(self) -> None:
        """The spans that were not exported. Traces begin with the events after they were turned on:
        earlier ones would only flood the collector."""
        now_ms = self.clock()
        await self.store.write(lambda tx: _begin(tx, now_ms), "")
        for swarm in await self.store.read(lambda tx: tx.traced_swarms(SWARMS_MAX)):
            until = swarm.traced_until or 0
            if swarm.last_event_id > until:
                self._pending[swarm.swarm_id] = None
            elif swarm.last_event_id < until:  # a restored backup: other events will follow
                known = partial(_note_exported, swarm_id=swarm.swarm_id, until=swarm.last_event_id)
                await self.store.write(known, "")

    async def _export(self, swarm_id: str, now_ms: int) -> bool:
        """False if the collector does not take the spans now."""
        swarm = self._swarms.get(swarm_id)
        last = await self._last_event_id(swarm_id)
        if swarm is None or last < swarm.until:  # the swarm was deleted, and made again
            swarm = await self._read_history(swarm_id, last)
        while True:
            if swarm.held is None:
                swarm.held = await self._next_spans(swarm_id, swarm)
            if swarm.held is None:
                return True
            spans, until = swarm.held
            if spans and not await self._send(spans, now_ms):
                return False
            await self.store.write(partial(_note_exported, swarm_id=swarm_id, until=until), "")
            swarm.held = None

    async def _last_event_id(self, swarm_id: str) -> int:
        return (await self.store.read(lambda tx: tx.event_bounds(swarm_id)))[1]

    async def _read_history(self, swarm_id: str, last: int) -> _Swarm:
        """The work in progress at the last exported event."""
        swarm = _Swarm(swarm_id)
        until = await self.store.read(lambda tx: tx.traced_until(swarm_id))
        end = min(until or 0, last)
        while swarm.until < end:
            before = min(swarm.until + EVENTS_PER_PAGE, end) + 1
            for event in await self._events(swarm_id, swarm.until, before):
                swarm.spans.apply(event, from_json(event.data))
            swarm.until = before - 1
        while len(self._swarms) >= REMEMBERED_SWARMS_MAX:
            del self._swarms[
                next(iter(self._swarms))
            ]  # if it has more events, its history is read again
        self._swarms[swarm_id] = swarm
        return swarm

    async def _events(self, swarm_id: str, after: int, before: int) -> list[Event]:
        wanted = EventFilter(swarm_id, after, before, kinds=TRACED_KINDS)
        return await self.store.read(
            lambda tx: tx.events_between(wanted, EVENTS_PER_PAGE, newest_first=False)
        )

    async def _next_spans(self, swarm_id: str, swarm: _Swarm) -> tuple[Sequence[Span], int] | None:
        """Those that the next page of events ends. None if there are no more events."""
        last = await self._last_event_id(swarm_id)
        if last <= swarm.until:
            return None
        until = min(swarm.until + EVENTS_PER_PAGE, last)
        events = await self._events(swarm_id, swarm.until, until + 1)
        ended = [
            span for event in events for span in swarm.spans.apply(event, from_json(event.data))
        ]
        swarm.until = until
        return await self.store.read(lambda tx: _with_all_checks(tx, ended)), until

    async def _send(self, spans: Sequence[Span], now_ms: int) -> bool:
        """Whether they are settled: taken, or held for too long and dropped."""
        if await self._sink.send(spans):
            if self._held_since_ms is not None:
                log.warning("the collector takes spans again")
            self.exported += len(spans)
            self._pause_seconds, self._held_since_ms = 0.0, None
            return True
        self.failures += 1
        if self._held_since_ms is None:
            self._held_since_ms = now_ms
            log.warning("the collector does not take spans; they are kept, and sent again")
        if now_ms - self._held_since_ms > HELD_SECONDS_MAX * 1000:
            self.dropped += len(spans)
            self._held_since_ms = now_ms
            log.error("%d spans were dropped: the collector has not taken them", len(spans))
            return True
        self._pause_seconds = min(
            max(self._pause_seconds * 2, FIRST_PAUSE_SECONDS), PAUSE_SECONDS_MAX
        )
        return False


def _begin(tx: Transaction, now_ms: int) -> None:
    """Only once for each database."""
    if tx.begin_traces(now_ms):
        for swarm in tx.traced_swarms(SWARMS_MAX):
            tx.put_traced_until(swarm.swarm_id, swarm.last_event_id)


def _note_exported(tx: Transaction, swarm_id: str, until: int) -> None:
    tx.put_traced_until(swarm_id, until)


def _with_all_checks(tx: Transaction, spans: Sequence[Span]) -> list[Span]:
    return [
        each
        for span in spans
        for each in (
            [span]
            if span.claim_id is None
            else with_checks(span, tx.claim(span.swarm_id, span.task_id, span.claim_id))
        )
    ]
