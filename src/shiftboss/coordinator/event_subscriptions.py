"""The readers of live events, and the order in which they are woken."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Final

# To write an event to a thousand readers takes tens of milliseconds. So they are woken a few at a
# time, with a pause in which requests are read and answered, and the threads of the store get the
# interpreter. Events of that time reach a reader in one write, together with its earlier ones.
READERS_PER_TURN: Final = 50
PAUSE_SECONDS: Final = 0.001


class Subscription:
    """The live events of one swarm, for one reader."""

    def __init__(self, behind_events_max: int) -> None:
        self._frames: deque[tuple[int, bytes]] = deque()
        self._behind_events_max = behind_events_max
        self._is_ready = False
        # In place of an asyncio.Event with a timeout, which take three times as long: each asks for
        # the running loop again.
        self._loop = asyncio.get_running_loop()
        self._waiter: asyncio.Future[None] | None = None
        self.ended = False
        self.on_cut_off: Callable[[], object] | None = None

    def offer(self, event_id: int, frame: bytes) -> bool:
        """Whether there is something to take. The reader learns of it by `wake`."""
        if self.ended:
            return False
        if len(self._frames) >= self._behind_events_max:
            self._frames.clear()
            self.end()
            if self.on_cut_off is not None:
                self.on_cut_off()
            return False
        self._frames.append((event_id, frame))
        return True

    def wake(self) -> None:
        """Let the reader take what is queued, unless it has done so already."""
        if self._frames:
            self._set_ready()

    def end(self) -> None:
        """Accept no more events. Those that are queued can still be taken."""
        self.ended = True
        self._set_ready()

    async def wait(self, timeout_seconds: float) -> None:
        """Return when the reader is woken, the subscription has ended, or the time is over."""
        if self._is_ready:
            return
        self._waiter = waiter = self._loop.create_future()
        timer = self._loop.call_later(timeout_seconds, _resolve, waiter)
        try:
            await waiter
        finally:
            timer.cancel()
            self._waiter = None

    def take(self) -> list[tuple[int, bytes]]:
        """Remove all queued events and return them as (event id, frame)."""
        frames = list(self._frames)
        self._frames.clear()
        if not self.ended:
            self._is_ready = False
        return frames

    def _set_ready(self) -> None:
        self._is_ready = True
        if self._waiter is not None:
            _resolve(self._waiter)


class ReaderQueue:
    """Readers with events to take, in the order in which they are woken."""

    def __init__(self) -> None:
        self._waiting: dict[Subscription, None] = {}
        self._next_turn: asyncio.Handle | None = None

    def add(self, subscription: Subscription) -> None:
        """One that waits already keeps its place."""
        self._waiting[subscription] = None
        if self._next_turn is None:
            # Not at once: the polls that the same commit wakes come first.
            self._next_turn = asyncio.get_running_loop().call_soon(self._wake_some)

    def remove(self, subscription: Subscription) -> None:
        self._waiting.pop(subscription, None)

    def _wake_some(self) -> None:
        self._next_turn = None
        for subscription in list(islice(self._waiting, READERS_PER_TURN)):
            del self._waiting[subscription]
            subscription.wake()
        if self._waiting:
            loop = asyncio.get_running_loop()
            self._next_turn = loop.call_later(PAUSE_SECONDS, self._wake_some)


def _resolve(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
