"""The hub: hands the events of a commit to those who wait for them, without a query.

Lives on the event loop alone, so it needs no locks.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from pydantic_core import from_json

from shiftboss.protocol.events import Event, EventKind
from shiftboss.store.early_future import EarlyFuture

# Workers that are free for certain: their polls can wait without asking the store.
#
# A worker that reported its task done is free until an event says otherwise, and where one server
# has the database its hub sees every event that concerns a worker. Most polls come right behind
# such a report.


# Beyond it all is forgotten, and the store is asked.
KNOWN_MAX: Final = 100_000
# A poll that comes later asks the store: the swarm may be gone.
CERTAIN_SECONDS: Final = 60.0

_Worker = tuple[str, str]


class FreeWorkers:
    def __init__(self) -> None:
        # Since when, by the monotonic clock.
        self._free: dict[_Worker, float] = {}
        # The task that each worker was given last, as long as nothing else was heard of it.
        self._given: dict[_Worker, str] = {}

    def hear(self, event: Event, data: dict[str, Any]) -> None:
        """Of an event that names its worker."""
        worker = (event.swarm_id, data["worker"])
        given = self._given.pop(worker, None)
        self._free.pop(worker, None)
        self._stay_small()
        if event.kind == EventKind.TASK_ASSIGNED.value:
            self._given[worker] = data["bead_id"]
        elif event.kind == EventKind.TASK_DONE.value and given == data["bead_id"]:
            self._free[worker] = time.monotonic()

    def take(self, swarm_id: str, worker: str) -> bool:
        """Whether the worker is free for certain. The next poll asks the store."""
        since = self._free.pop((swarm_id, worker), None)
        return since is not None and time.monotonic() - since < CERTAIN_SECONDS

    def _stay_small(self) -> None:
        if len(self._free) + len(self._given) >= KNOWN_MAX:
            self._free.clear()
            self._given.clear()


# A subscriber this far behind is cut off; it can come back with the last id it saw.
BEHIND_EVENTS_MAX: Final = 10_000
SWARMS_MAX: Final = 100_000


class Subscription:
    """The live events of one swarm, for one reader."""

    def __init__(self, behind_events_max: int) -> None:
        self._frames: deque[tuple[int, bytes]] = deque()
        self._behind_events_max = behind_events_max
        self._ready = asyncio.Event()
        self.ended = False
        self.on_cut_off: Callable[[], object] | None = None

    def offer(self, event_id: int, frame: bytes) -> None:
        if self.ended:
            return
        if len(self._frames) >= self._behind_events_max:
            self._frames.clear()
            self.end()
            if self.on_cut_off is not None:
                self.on_cut_off()
            return
        self._frames.append((event_id, frame))
        self._ready.set()

    def end(self) -> None:
        """No more will come; what is waiting can still be taken."""
        self.ended = True
        self._ready.set()

    async def wait(self, timeout_seconds: float) -> None:
        """Until something is there, the end has come, or the time is over."""
        try:
            async with asyncio.timeout(timeout_seconds):
                await self._ready.wait()
        except TimeoutError:
            pass

    def take(self) -> list[tuple[int, bytes]]:
        """All that waits, as (event id, frame)."""
        frames = list(self._frames)
        self._frames.clear()
        if not self.ended:
            self._ready.clear()
        return frames


# What a parked poll waits for; the event names its worker.
WAKING_KINDS: Final = frozenset(
    {
        EventKind.TASK_ASSIGNED.value,
        EventKind.QUESTION_ANSWERED.value,
        EventKind.BUS_WORKER_RESET.value,
        EventKind.ATTEMPT_ENDED.value,
        EventKind.CLAIM_ACCEPTED.value,
        EventKind.CLAIM_REFUSED.value,
        EventKind.CI_FAILED.value,
        EventKind.WORK_PAUSED.value,
        EventKind.WORK_RESUMED.value,
        EventKind.BREAKAGE_FOUND.value,
    }
)
_OF_WORKERS: Final = WAKING_KINDS | {EventKind.TASK_DONE.value}
# Given to a poll in place of an event: something may have happened, and the store knows what.
LOOK_AGAIN: Final = Event("", 0, "", 0, "{}")
# None: the time is over, or the server ends.
ParkedPoll = EarlyFuture[Event | None]


def end_wait(poll: ParkedPoll) -> None:
    poll.give(None)


class Hub:
    """`is_alone`: no other server uses the database, so every event is heard, and in order."""

    def __init__(
        self, behind_events_max: int = BEHIND_EVENTS_MAX, *, is_alone: bool = True
    ) -> None:
        self._subscriptions: dict[str, set[Subscription]] = {}
        self._parked: dict[str, dict[str, set[ParkedPoll]]] = {}
        self._listeners: dict[str, list[Callable[[Event], None]]] = {}
        self._on_close: list[Callable[[], None]] = []
        self.free_workers = FreeWorkers()
        self._is_alone = is_alone
        self._last_event_ids: dict[str, int] = {}
        self._behind_events_max = behind_events_max
        self.closed = False

    def subscribe(self, swarm_id: str) -> Subscription:
        subscription = Subscription(self._behind_events_max)
        if self.closed:
            subscription.end()
        self._subscriptions.setdefault(swarm_id, set()).add(subscription)
        return subscription

    def unsubscribe(self, swarm_id: str, subscription: Subscription) -> None:
        others = self._subscriptions.get(swarm_id, set())
        others.discard(subscription)
        if not others:
            self._subscriptions.pop(swarm_id, None)

    def listen(self, kind: EventKind, listener: Callable[[Event], None]) -> None:
        """Hear of the events of one kind in every swarm. The listener must return at once."""
        self._listeners.setdefault(kind.value, []).append(listener)

    def on_close(self, listener: Callable[[], None]) -> None:
        """Hear that the server ends, and that nobody may be kept waiting."""
        self._on_close.append(listener)

    def publish(self, events: list[Event]) -> None:
        for event in events:
            for listener in self._listeners.get(event.kind, ()):
                listener(event)
            if event.kind in _OF_WORKERS:
                self._tell_worker(event)
            subscriptions = self._subscriptions.get(event.swarm_id)
            if subscriptions:
                frame = event.to_sse()
                for subscription in tuple(subscriptions):
                    subscription.offer(event.event_id, frame)

    def park(self, swarm_id: str, worker: str) -> ParkedPoll:
        """A poll that waits for the next event that concerns the worker. Give it back with
        `unpark`. Several polls of one name all wake: none can swallow a task."""
        poll: ParkedPoll = EarlyFuture(loop=asyncio.get_running_loop())
        self._parked.setdefault(swarm_id, {}).setdefault(worker, set()).add(poll)
        if self.closed:
            poll.set_result(None)
        return poll

    def unpark(self, swarm_id: str, worker: str, poll: ParkedPoll) -> None:
        workers = self._parked[swarm_id]
        workers[worker].discard(poll)
        if not workers[worker]:
            del workers[worker]
        if not workers:
            del self._parked[swarm_id]

    def polling(self, swarm_id: str) -> frozenset[str]:
        """The names of the workers whose polls are parked here."""
        return frozenset(self._parked.get(swarm_id, ()))

    def _tell_worker(self, event: Event) -> None:
        data: dict[str, Any] = from_json(event.data)
        self._note(event, data)
        parked = self._parked.get(event.swarm_id)
        # The reset of a worker has an event of its own.
        if parked is None or event.kind not in WAKING_KINDS or data.get("reason") == "reset":
            return
        told = LOOK_AGAIN if self._is_late(event) else event
        for poll in parked.get(data["worker"], ()):
            poll.give(told)

    def _is_late(self, event: Event) -> bool:
        """Another server's event may come behind later ones of this server: what it tells may be
        over by now."""
        return event.event_id < self._last_event_ids.get(event.swarm_id, 0)

    def _note(self, event: Event, data: dict[str, Any]) -> None:
        if self._is_alone:
            self.free_workers.hear(event, data)
            return
        if len(self._last_event_ids) >= SWARMS_MAX:
            self._last_event_ids.clear()
        last = self._last_event_ids.get(event.swarm_id, 0)
        self._last_event_ids[event.swarm_id] = max(last, event.event_id)

    def look_again(self) -> None:
        """Events of other servers may have been missed: every parked poll asks the store."""
        self._tell_all(LOOK_AGAIN)

    def _tell_all(self, told: Event | None) -> None:
        for workers in self._parked.values():
            for polls in workers.values():
                for poll in polls:
                    poll.give(told)

    def close(self) -> None:
        """End every stream cleanly, and answer every parked poll."""
        self.closed = True
        for listener in self._on_close:
            listener()
        self._tell_all(None)
        for subscriptions in self._subscriptions.values():
            for subscription in subscriptions:
                subscription.end()
