"""The SDK's HTTP side, started with the first request that needs it.

Importing the SDK takes half a second or more and 27 MB, which a server without such clients need
not pay. It is done in a thread: the server goes on meanwhile.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from starlette.types import Receive, Scope, Send

from shiftboss.server.mcp.calls import ToolDesk

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager


class SdkRunner:
    def __init__(self, desk: ToolDesk) -> None:
        self._desk = desk
        self._manager: StreamableHTTPSessionManager | None = None
        self._starting = asyncio.Lock()
        self._ending = asyncio.Event()
        self._running: asyncio.Task[None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        manager = self._manager or await self._started()
        await manager.handle_request(scope, receive, send)

    async def stop(self) -> None:
        self._ending.set()
        if self._running is not None:
            await self._running

    async def _started(self) -> StreamableHTTPSessionManager:
        async with self._starting:
            if self._manager is None:
                manager = await asyncio.to_thread(_manager, self._desk)
                ready = asyncio.Event()
                self._running = asyncio.create_task(self._run(manager, ready))
                await ready.wait()
                self._manager = manager
            return self._manager

    async def _run(self, manager: StreamableHTTPSessionManager, ready: asyncio.Event) -> None:
        """In a task of its own: what the SDK opens must be closed by the same task."""
        async with manager.run():
            ready.set()
            await self._ending.wait()


def _manager(desk: ToolDesk) -> StreamableHTTPSessionManager:
    from shiftboss.server.mcp.sdk import http_manager

    return http_manager(desk)
