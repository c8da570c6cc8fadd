"""Effects after a commit: the consequences of an event outside of the database.

A use case is a function of its transaction and may run more than once, so it must not write a file,
send a notification or count something. Such an effect is a module of this package,
registered in `registry.py` with the kinds of events that it handles.

An effect runs after the commit, on the event loop, after the answer: no caller waits for it. It
costs nothing where no event of its kinds is committed, because the hub only calls listeners of the
event's own kind. Of the servers on a database, one runs the effects, as it runs most duties.

An effect runs at least once only with the help of its `catch_up`: a crash between the commit and
the effect, a full queue, a lost connection to other servers, an effect that fails or a change of
the server that runs them leaves events out. `catch_up` reads from the store what may have been
missed and repeats it. It is called when the effects start and after each gap, so an effect that
must not be lost has one, and both must be idempotent. An effect without `catch_up` may be lost.

Waking something in this process (a duty, a parked poll, a request that waits for a verdict) is not
an effect: it must happen before the answer and leaves nothing to repeat. Use `Hub.listen`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, defaultdict, deque
from collections.abc import Awaitable, Callable, Iterable
from typing import ClassVar, Final, NamedTuple

from shiftboss.coordinator.duties.duty_record import DutyRecord
from shiftboss.coordinator.event_hub import Hub
from shiftboss.errors import LeadershipLost
from shiftboss.protocol.events import Event, EventKind
from shiftboss.store.port import Transactions

log = logging.getLogger(__name__)

QUEUED_EVENTS_MAX: Final = 10_000
# Effects run one after the other, so one that hangs must not hold up the others forever.
EFFECT_SECONDS_MAX: Final = 30.0
CATCH_UP_SECONDS_MAX: Final = 300.0
LEADERSHIP_PAUSE_SECONDS: Final = 0.2


class Effect(NamedTuple):
    """`run` gets each committed event of `kinds`, in order, possibly more than once. `catch_up`
    repeats what may have been missed; the default loses it."""

    name: str
    kinds: frozenset[EventKind]
    run: Callable[[Event], Awaitable[None]]
    catch_up: Callable[[Transactions], Awaitable[None]] | None = None


class AfterCommit:
    """Runs the effects of committed events, one at a time, in the order of the events."""

    on_every_server: ClassVar[bool] = False

    def __init__(
        self,
        store: Transactions,
        hub: Hub,
        effects: Iterable[Effect],
        leads: Callable[[], bool] = lambda: True,
    ) -> None:
        """`leads`: whether this server is still the one that runs the effects."""
        self._store = store
        self._leads = leads
        self._effects = tuple(effects)
        self._events: deque[Event] = deque()
        self._is_running = False
        self._has_missed_some = False
        self._wake = asyncio.Event()
        self.record = DutyRecord(type(self).__name__, CATCH_UP_SECONDS_MAX * 2)
        self._current: Event | None = None
        # How often each effect has failed or hung since the start of the server.
        self.failures: Counter[str] = Counter({effect.name: 0 for effect in self._effects})
        self._by_kind: dict[str, list[Effect]] = defaultdict(list)
        for effect in self._effects:
            for kind in effect.kinds:
                self._by_kind[kind.value].append(effect)
        for name in self._by_kind:
            hub.listen(EventKind(name), self._enqueue)

    def _enqueue(self, event: Event) -> None:
        if not self._is_running:
            return  # another server runs the effects, or will catch up when it starts
        if len(self._events) >= QUEUED_EVENTS_MAX:
            self.catch_up()
            return
        self._events.append(event)
        self._wake.set()

    @property
    def waiting(self) -> int:
        """How many events wait for their effects."""
        return len(self._events)

    @property
    def oldest_at_ms(self) -> int | None:
        """The time of the oldest event whose effects have not run; None if there is none."""
        if self._current is not None:
            return self._current.at_ms
        return self._events[0].at_ms if self._events else None

    def catch_up(self) -> None:
        """Events may have been missed: have every effect look for them in the store."""
        self._has_missed_some = True
        self._wake.set()

    async def run(self) -> None:
        self._is_running = True
        self._has_missed_some = True
        try:
            while True:
                try:
                    await self._run_next()
                except LeadershipLost:
                    # This may be temporary: the lease may be renewed late without another server
                    # taking over.
                    self.catch_up()
        finally:
            self._is_running = False
            self._events.clear()
            self._current = None

    async def _run_next(self) -> None:
        if not self._leads():
            # A server that was stopped for a while finds out soon, and then this is cancelled.
            await asyncio.sleep(LEADERSHIP_PAUSE_SECONDS)
        elif self._has_missed_some:
            self._has_missed_some = False
            with self.record.round():
                await self._catch_up_all()
        elif self._events:
            self._current = event = self._events.popleft()
            with self.record.round():
                for effect in self._by_kind[event.kind]:
                    await self._attempt(effect.name, effect.run(event), EFFECT_SECONDS_MAX)
            self._current = None
        else:
            self._wake.clear()
            await self._wake.wait()

    async def _catch_up_all(self) -> None:
        for effect in self._effects:
            if effect.catch_up is not None:
                await self._attempt(effect.name, effect.catch_up(self._store), CATCH_UP_SECONDS_MAX)

    async def _attempt(self, name: str, effect: Awaitable[None], seconds_max: float) -> None:
        """An effect that fails is logged; the others run. Raises LeadershipLost."""
        try:
            async with asyncio.timeout(seconds_max):
                await effect
        except LeadershipLost:
            raise
        except TimeoutError:
            self.failures[name] += 1
            log.error("effect %s was cancelled after %.0f s", name, seconds_max)  # noqa: TRY400
        except Exception:
            self.failures[name] += 1
            log.exception("effect %s failed", name)
