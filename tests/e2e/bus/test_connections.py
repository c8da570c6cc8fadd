"""The HTTP connection from the inside: idle timeouts and memory."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Awaitable
from pathlib import Path
from typing import Any

import pytest

from shiftboss.protocol.fields import Answer
from shiftboss.server.fast_path.connection import FastConnection
from shiftboss.server.fast_path.exchange import FastExchange
from shiftboss.server.http.app import App
from shiftboss.server.http.open_connections import ConnectionLimits
from tests.listener import Listener, coordinating

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("BUS-03")]

KEPT_SECONDS = 0.2
POLL = b'{"name":"w","timeout_ms":%d}'


@pytest.fixture(params=[True, False], ids=["fast path", "plain ASGI"])
async def listening(
    tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator[tuple[Listener, str, int]]:
    limits = ConnectionLimits(idle_seconds=KEPT_SECONDS)
    async with coordinating(tmp_path / "shiftboss.db") as coordinator:
        listener = Listener(App(coordinator), fast_path=request.param, limits=limits)
        async with listener.listening():
            yield listener, listener.host, listener.port


def post(path: str, body: bytes) -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    head += f"Content-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


async def reply(reader: asyncio.StreamReader) -> Any:
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    return json.loads(await reader.readexactly(length))


async def test_a_poll_outlasts_the_idle_connection_timeout(
    listening: tuple[Listener, str, int],
) -> None:
    """Even after a request in the same packet that was refused at once."""
    _, host, port = listening
    reader, writer = await asyncio.open_connection(host, port)
    poll = post("/bus/poll_task", POLL % round(3000 * KEPT_SECONDS))
    writer.write(post("/bus/register_worker", b'{"name":"w"}'))
    assert (await reply(reader))["worker"] == "w"
    writer.write(post("/bus/ack_task", b"not json") + poll)
    async with asyncio.timeout(30):
        assert (await reply(reader))["code"] == "invalid_request"
        assert (await reply(reader))["timeout"] is True
        assert await reader.read() == b""  # it has been idle for long enough
    writer.close()


async def test_a_client_that_sends_without_reading_does_not_fill_the_memory(
    listening: tuple[Listener, str, int],
) -> None:
    listener, host, port = listening
    reader, writer = await asyncio.open_connection(host, port, limit=1000)
    writer.transport.set_write_buffer_limits(high=0)
    status = post("/bus/get_status", b"{}")
    # More than the buffers of both sides hold, so that the server has to stop reading.
    sent, waited = 0, 0
    while sent * len(status) < 20_000_000 and waited < 20:
        writer.write(status * 100)
        sent += 100
        try:
            async with asyncio.timeout(0.1):
                await writer.drain()
        except TimeoutError:
            waited += 1
        assert len(listener.connections[0].pipeline) * len(status) < 1_000_000
    assert waited, "the server read on and on"
    for _ in range(50):
        assert "workers" in await reply(reader)
    writer.transport.abort()


@pytest.mark.parametrize("listening", [True], indirect=True, ids=["fast path"])
async def test_the_shortcuts_of_the_fast_path_are_taken(
    listening: tuple[Listener, str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No other test would notice if they were not: the replies are the same."""
    early: list[tuple[str, bool]] = []
    in_task: list[str] = []
    send_early, create_task = FastConnection._send_early, FastConnection._create_task

    def note_early(connection: FastConnection, exchange: FastExchange, answer: object) -> None:
        send_early(connection, exchange, answer)
        on_loop = threading.current_thread() is threading.main_thread()
        assert exchange.unsent == b""
        early.append((exchange.call.path, on_loop))

    def note_task(
        connection: FastConnection, exchange: FastExchange, answer: Awaitable[Answer]
    ) -> None:
        in_task.append(exchange.call.path)
        create_task(connection, exchange, answer)

    monkeypatch.setattr(FastConnection, "_send_early", note_early)
    monkeypatch.setattr(FastConnection, "_create_task", note_task)
    _, host, port = listening
    reader, writer = await asyncio.open_connection(host, port)
    for path, body in (
        ("register_worker", b'{"name":"w"}'),
        ("add_task", b'{"bead_id":"t","title":"T"}'),
        ("submit_task", b'{"bead_id":"t"}'),
        ("poll_task", b'{"name":"w"}'),
        ("ack_task", b'{"name":"w","bead_id":"t"}'),
        ("worker_done", b'{"bead_id":"t"}'),
        # When this is answered, the hub has the event of the report before it.
        ("add_task", b'{"bead_id":"u","title":"U"}'),
        ("poll_task", b'{"name":"w","timeout_ms":1}'),
    ):
        writer.write(post(f"/bus/{path}", body))
        assert "code" not in await reply(reader), path
    assert early == [
        ("/bus/poll_task", True),
        ("/bus/ack_task", False),
        ("/bus/worker_done", False),
        ("/bus/poll_task", True),
    ]
    assert in_task == []
    writer.close()
