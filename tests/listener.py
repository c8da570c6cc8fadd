"""The application behind real connections in this process, which a test can inspect."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import uvicorn
from uvicorn.server import ServerState

from shiftboss.coordinator.coordinator import Coordinator
from shiftboss.server.fast_path.connection import FastConnection
from shiftboss.server.fast_path.head_cache import HeadCache
from shiftboss.server.http.app import App
from shiftboss.server.http.connection import Connection
from shiftboss.server.http.open_connections import ConnectionLimits, OpenConnections
from shiftboss.store.opening import store_at


class Listener:
    def __init__(
        self, app: App, *, fast_path: bool, limits: ConnectionLimits | None = None
    ) -> None:
        limits = limits or ConnectionLimits()
        self.connections: list[Connection] = []
        self.open_connections = OpenConnections(limits, time.monotonic)
        self._connection: Callable[..., Connection] = Connection
        if fast_path:
            self._connection = partial(
                FastConnection, app.calls, app.guard, app.rates, HeadCache(), app.access_log
            )
        self._config = uvicorn.Config(app, timeout_keep_alive=1, log_config=None)
        self._config.timeout_keep_alive = limits.idle_seconds  # type: ignore[assignment]
        self._config.load()
        self._state = ServerState()
        self.host, self.port = "", 0

    def connect(self) -> Connection:
        connection = self._connection(
            open_connections=self.open_connections,
            config=self._config,
            server_state=self._state,
            app_state={},
        )
        self.connections.append(connection)
        return connection

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[Listener]:
        server = await asyncio.get_running_loop().create_server(self.connect, "127.0.0.1", 0)
        self.host, self.port = server.sockets[0].getsockname()
        watching = asyncio.create_task(self.open_connections.watch())
        yield self
        watching.cancel()
        server.close()
        for connection in self.connections:
            connection.transport.close()


@asynccontextmanager
async def coordinating(database: Path) -> AsyncIterator[Coordinator]:
    coordinator = Coordinator(store_at(str(database)))
    await coordinator.start()
    yield coordinator
    await coordinator.stop()
