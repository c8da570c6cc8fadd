"""The HTTP connection from the inside: what the clock and the memory of a server would show."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from shiftboss.coordinator.coordinator import Coordinator
from shiftboss.server.fast_path.connection import Connection
from shiftboss.server.fast_path.head_cache import HeadCache
from shiftboss.server.http.app import App
from shiftboss.store.opening import store_at

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("BUS-03")]

KEPT_SECONDS = 0.2
POLL = b'{"name":"w","timeout_ms":%d}'


class Room:
    """The application behind real connections, of which a test can see the inside."""

    def __init__(self, app: App, keep_alive_seconds: float) -> None:
        self._app = app
        self.connections: list[Connection] = []
        self._config = uvicorn.Config(app, timeout_keep_alive=1, log_config=None)
        self._config.timeout_keep_alive = keep_alive_seconds  # type: ignore[assignment]
        self._state = ServerState()
        self._heads = HeadCache()

    def connection(self) -> Connection:
        made = Connection(
            self._app.calls,
            self._app.guard,
            self._heads,
            config=self._config,
            server_state=self._state,
            app_state={},
        )
        self.connections.append(made)
        return made


@pytest.fixture
async def room(tmp_path: Path) -> AsyncIterator[tuple[Room, str, int]]:
    coordinator = Coordinator(store_at(str(tmp_path / "room.db")))
    await coordinator.start()
    it = Room(App(coordinator), KEPT_SECONDS)
    server = await asyncio.get_running_loop().create_server(it.connection, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    yield it, host, port
    server.close()
    for one in it.connections:
        one.transport.close()
    await coordinator.stop()


def request(path: str, body: bytes) -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


async def reply(reader: asyncio.StreamReader) -> Any:
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    return json.loads(await reader.readexactly(length))


async def test_a_poll_outlives_the_time_of_an_idle_connection(room: tuple[Room, str, int]) -> None:
    """Also behind a request of the same packet that was refused at once."""
    _, host, port = room
    reader, writer = await asyncio.open_connection(host, port)
    poll = request("/bus/poll_task", POLL % round(3000 * KEPT_SECONDS))
    writer.write(request("/bus/register_worker", b'{"name":"w"}'))
    assert (await reply(reader))["worker"] == "w"
    writer.write(request("/bus/ack_task", b"not json") + poll)
    async with asyncio.timeout(10):
        assert (await reply(reader))["code"] == "invalid_request"
        assert (await reply(reader))["timeout"] is True
        assert await reader.read() == b""  # and now it was idle for long enough
    writer.close()


async def test_who_sends_and_does_not_read_does_not_fill_the_memory(
    room: tuple[Room, str, int],
) -> None:
    it, host, port = room
    reader, writer = await asyncio.open_connection(host, port, limit=1000)
    writer.transport.set_write_buffer_limits(high=0)
    status = request("/bus/get_status", b"{}")
    # More than what lies in the buffers of both sides, so that the server has to stop reading.
    sent, waited = 0, 0
    while sent * len(status) < 20_000_000 and waited < 20:
        writer.write(status * 100)
        sent += 100
        try:
            async with asyncio.timeout(0.1):
                await writer.drain()
        except TimeoutError:
            waited += 1
        assert len(it.connections[0].pipeline) * len(status) < 1_000_000
    assert waited, "the server read on and on"
    for _ in range(50):
        assert "workers" in await reply(reader)
    writer.transport.abort()
