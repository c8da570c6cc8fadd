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
from shiftboss.server.fast_path.serving import fast_connections
from shiftboss.server.http.app import App
from shiftboss.server.http.connection import Connection
from shiftboss.server.http.open_connections import ConnectionLimits, OpenConnections
from shiftboss.server.http.tls_connections import behind_tls
from shiftboss.store.open_store import store_at


class Listener:
    """Speaks TLS if the application has certificates."""

    def __init__(
        self, app: App, *, fast_path: bool, limits: ConnectionLimits | None = None
    ) -> None:
        self._certificates = app.certificates
        limits = limits or ConnectionLimits()
        self.connections: list[Connection] = []
        self.open_connections = OpenConnections(limits, time.monotonic)
        self._connection: Callable[..., Connection] = (
            fast_connections(app, self.open_connections)
            if fast_path
            else partial(Connection, open_connections=self.open_connections)
        )
        self._config = uvicorn.Config(
            app, timeout_keep_alive=1, log_config=None, proxy_headers=False
        )
        self._config.timeout_keep_alive = limits.idle_seconds  # type: ignore[assignment]
        self._config.load()
        self._state = ServerState()
        self.host, self.port = "", 0

    def connect(self) -> Connection:
        connection = self._connection(
            config=self._config,
            server_state=self._state,
            app_state={},
        )
        self.connections.append(connection)
        return connection

    def _accept(self) -> asyncio.Protocol:
        if self._certificates is None:
            return self.connect()
        create = behind_tls(lambda **_: self.connect(), self._certificates, self.open_connections)
        return create(server_state=self._state)

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[Listener]:
        server = await asyncio.get_running_loop().create_server(self._accept, "127.0.0.1", 0)
        self.host, self.port = server.sockets[0].getsockname()
        watching = asyncio.create_task(self.open_connections.watch())
        try:
            yield self
        finally:
            watching.cancel()
            server.close()
            for connection in self.connections:
                connection.transport.close()


@asynccontextmanager
async def coordinating(database: Path) -> AsyncIterator[Coordinator]:
    coordinator = Coordinator(store_at(str(database)))
    await coordinator.start()
    try:
        yield coordinator
    finally:
        await coordinator.stop()
