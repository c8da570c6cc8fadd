"""GET /changes: the change feed as server-sent events, for every swarm that the caller may read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from pydantic_core import to_json
from starlette.types import Receive, Scope, Send

from shiftboss.coordinator.board.change_feed import ChangeReader
from shiftboss.coordinator.coordinator import Coordinator
from shiftboss.rules.access.roles import Permission
from shiftboss.rules.access.scope import check_permission
from shiftboss.server.http.event_streams import (
    KEEP_ALIVE_SECONDS,
    RECONNECT_MS,
    STREAM_HEADERS,
)
from shiftboss.server.http.guard import Guard
from shiftboss.store.current_actor import CURRENT_ACTOR

# The keep-alive. A script is not told of comments, so it could not tell a quiet server from a
# connection that is dead.
PING: Final = b"event: ping\ndata: {}\n\n"


class Changes:
    """Plain ASGI: a stream has no response object."""

    def __init__(self, coordinator: Coordinator, guard: Guard, started_at: str) -> None:
        self._coordinator = coordinator
        self._guard = guard
        self._started_at = started_at

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        actor = CURRENT_ACTOR.get()
        check_permission(actor, Permission.READ)
        await send({"type": "http.response.start", "status": 200, "headers": STREAM_HEADERS})
        if scope["method"] == "GET":
            is_admitted = self._guard.watch(scope["method"], scope["path"], scope["headers"], actor)
            await self._stream(actor.swarm_id, receive, send, is_admitted)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _stream(
        self, swarm_id: str | None, receive: Receive, send: Send, is_admitted: Callable[[], bool]
    ) -> None:
        """Subscribes first: what the reader loads after the first frame has all it missed."""
        feed = self._coordinator.board.changes
        reader = feed.subscribe(swarm_id)
        disconnect = asyncio.create_task(_end_at_disconnect(receive, reader))
        try:
            await _write(send, self._hello())
            while not reader.ended:
                is_news = await reader.wait(KEEP_ALIVE_SECONDS)
                frames = reader.take()
                if not is_admitted():
                    break
                if frames or not is_news:
                    await _write(send, frames or PING)
        finally:
            disconnect.cancel()
            feed.unsubscribe(reader)

    def _hello(self) -> bytes:
        hello = {"started_at": self._started_at, "server_time": self._coordinator.clock()}
        return b"retry: %d\n\nevent: hello\ndata: %b\n\n" % (RECONNECT_MS, to_json(hello))


async def _write(send: Send, body: bytes) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": True})


async def _end_at_disconnect(receive: Receive, reader: ChangeReader) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    reader.end()
