"""The hub: hands the events of a commit to those who wait for them, without a query.

Lives on the event loop alone, so it needs no locks.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from shiftboss.protocol.events import Event, EventKind

# A subscriber this far behind is cut off; it can come back with the last id it saw.
BEHIND_EVENTS_MAX: Final = 10_000


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


class Hub:
    def __init__(self, behind_events_max: int = BEHIND_EVENTS_MAX) -> None:
        self._subscriptions: dict[str, set[Subscription]] = {}
        self._listeners: dict[str, list[Callable[[Event], None]]] = {}
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

    def publish(self, events: list[Event]) -> None:
        for event in events:
            for listener in self._listeners.get(event.kind, ()):
                listener(event)
            subscriptions = self._subscriptions.get(event.swarm_id)
            if subscriptions:
                frame = event.to_sse()
                for subscription in tuple(subscriptions):
                    subscription.offer(event.event_id, frame)

    def close(self) -> None:
        """End every stream cleanly."""
        self.closed = True
        for subscriptions in self._subscriptions.values():
            for subscription in subscriptions:
                subscription.end()
