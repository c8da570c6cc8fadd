"""Event streams: GET /swarm/{swarm_id}/events as server-sent events.

A stream sends the stored events first, then the live ones from the hub. It fills gaps between them
from the store, so a reader gets every event once and in order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from starlette.datastructures import QueryParams
from starlette.types import Receive, Scope, Send

from shiftboss.coordinator.coordinator import Coordinator
from shiftboss.coordinator.event_subscriptions import Subscription
from shiftboss.errors import InvalidRequest, StoreUnavailable
from shiftboss.protocol.fields import INTEGER_MAX
from shiftboss.server.http.requests import header

PAGE_EVENTS: Final = 500
KEEP_ALIVE_SECONDS: Final = 15.0
STORE_PAUSE_SECONDS: Final = 0.5
# How long a browser waits before it reconnects.
RECONNECT_MS: Final = 1000

KEEP_ALIVE: Final = b": keep-alive\n\n"
STREAM_HEADERS: Final = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]


class EventStream:
    """One reader of one swarm's events."""

    def __init__(
        self,
        coordinator: Coordinator,
        swarm_id: str,
        since: int,
        send: Send,
        is_admitted: Callable[[], bool],
    ) -> None:
        """The stream ends when `is_admitted` says no: it may outlive the token of its reader."""
        self._coordinator = coordinator
        self._is_admitted = is_admitted
        self._swarm_id = swarm_id
        self._last = since
        self._send = send

    async def run(self, receive: Receive, *, follow: bool) -> None:
        swarms = self._coordinator.swarms
        if self._last:
            self._last = await swarms.existing_event_id(self._swarm_id, self._last)
        page = await self._page()  # an unknown swarm is refused before the stream starts
        await self._send({"type": "http.response.start", "status": 200, "headers": STREAM_HEADERS})
        await self._write(f"retry: {RECONNECT_MS}\n\n".encode())
        while page and self._is_admitted():
            await self._write(b"".join(page))
            try:
                page = await self._page()
            except StoreUnavailable:
                if not follow:
                    raise
                break  # `_follow` waits for the database and sends what is missing
        if follow and self._is_admitted():
            await self._follow(receive)
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _page(self) -> list[bytes]:
        swarms = self._coordinator.swarms
        events = await swarms.events_after(self._swarm_id, self._last, PAGE_EVENTS)
        if events:
            self._last = events[-1].event_id
        return [event.to_sse() for event in events]

    async def _follow(self, receive: Receive) -> None:
        hub = self._coordinator.hub
        subscription = hub.subscribe(self._swarm_id)
        task = asyncio.current_task()
        assert task is not None
        # A reader that stops reading blocks this task in a send, which only a cancellation ends.
        subscription.on_cut_off = task.cancel
        disconnect = asyncio.create_task(_end_at_disconnect(receive, subscription))
        try:
            await self._fill_gap(subscription)
            await self._live(subscription)
        finally:
            disconnect.cancel()
            hub.unsubscribe(self._swarm_id, subscription)

    async def _live(self, subscription: Subscription) -> None:
        while True:
            await subscription.wait(KEEP_ALIVE_SECONDS)
            frames = subscription.take()
            if not self._is_admitted():
                return
            if frames:
                await self._write_live(frames, subscription)
            elif subscription.ended:
                return
            else:
                await self._write(KEEP_ALIVE)

    async def _write_live(
        self, frames: list[tuple[int, bytes]], subscription: Subscription
    ) -> None:
        fresh = [frame for frame in frames if frame[0] > self._last]
        if fresh and fresh[0][0] > self._last + 1:
            await self._fill_gap(subscription)
            fresh = [frame for frame in frames if frame[0] > self._last]
        if fresh:
            self._last = fresh[-1][0]
            await self._write(b"".join(frame for _, frame in fresh))

    async def _fill_gap(self, subscription: Subscription) -> None:
        while page := await self._next_page(subscription):
            await self._write(b"".join(page))

    async def _next_page(self, subscription: Subscription) -> list[bytes]:
        """Wait while the database restarts, as long as the reader is connected."""
        while True:
            try:
                return await self._page()
            except StoreUnavailable:
                if subscription.ended:
                    raise
                await self._write(KEEP_ALIVE)
                await asyncio.sleep(STORE_PAUSE_SECONDS)

    async def _write(self, body: bytes) -> None:
        await self._send({"type": "http.response.body", "body": body, "more_body": True})


async def _end_at_disconnect(receive: Receive, subscription: Subscription) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    subscription.end()


def since_event_id(scope: Scope) -> int:
    """Where to start: the query, or Last-Event-ID of a reader that reconnects; the later one."""
    query = QueryParams(scope["query_string"]).get("since_event_id", "0")
    return max(
        _event_id(query, "since_event_id"),
        _event_id(header(scope["headers"], b"last-event-id") or "0", "Last-Event-ID"),
    )


def _event_id(text: str, field: str) -> int:
    # The length is checked first, so that huge numbers are not converted.
    if not (text.isascii() and text.isdecimal() and len(text) <= 16 and int(text) <= INTEGER_MAX):
        raise InvalidRequest(f"{field}: must be a whole number from 0", field=field)
    return int(text)
