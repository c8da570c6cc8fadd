"""What a client is told when its request cannot be read."""

from __future__ import annotations

import asyncio
import logging
import time

import pytest
import uvicorn
from uvicorn.server import ServerState

from shiftboss.server.http.connection import Connection
from shiftboss.server.http.open_connections import ConnectionLimits, OpenConnections

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("OWN-09")]

REQUEST = b"POST /bus/ack_task HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\n\r\n"


class Recording(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self._is_closing = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += bytes(data)

    def close(self) -> None:
        self._is_closing = True

    def is_closing(self) -> bool:
        return self._is_closing


class WithoutMemory(Connection):
    def _begin_request(self) -> None:
        raise MemoryError


async def _app(_scope: object, _receive: object, _send: object) -> None:
    pass


def reply_to(request: bytes, kind: type[Connection]) -> bytes:
    config = uvicorn.Config(app=_app, log_config=None)
    config.load()
    connection = kind(
        OpenConnections(ConnectionLimits(), time.monotonic),
        config=config,
        server_state=ServerState(),
        app_state={},
    )
    transport = Recording()
    connection.connection_made(transport)
    connection.data_received(request)
    assert transport.is_closing()
    return transport.written


async def test_a_request_that_the_server_fails_to_read_is_not_called_malformed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.ERROR, "shiftboss"):
        reply = reply_to(REQUEST, WithoutMemory)
    assert reply.startswith(b"HTTP/1.1 500 "), reply
    assert b"malformed" not in reply
    (record,) = (each for each in caplog.records if each.name.startswith("shiftboss"))
    assert record.exc_info is not None
    assert record.exc_info[0] is MemoryError


async def test_a_malformed_request_is_called_so() -> None:
    reply = reply_to(b"\x00\x01 nonsense\r\n\r\n", Connection)
    assert reply.startswith(b"HTTP/1.1 400 "), reply
    assert b"malformed_request" in reply
