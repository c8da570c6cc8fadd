"""The same bytes mean the same, with and without the fast path and however packets cut them."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings

from shiftboss.server.http.app import App
from shiftboss.server.http.connection import Connection
from shiftboss.server.http.open_connections import Phase
from shiftboss.server.http.rate_limits import RateLimits
from tests.client import ANSWER_SECONDS
from tests.e2e.hostile.raw_requests import packets
from tests.examples import FACTOR, examples
from tests.listener import Listener, coordinating

pytestmark = pytest.mark.requirement("BUS-01", "SW-06")

REGISTER = (
    b"POST /bus/register_worker HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    b'Content-Type: application/json\r\nContent-Length: 13\r\n\r\n{"name":"w1"}'
)
LIST = b"POST /bus/list_tasks HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


class Sides:
    """Two servers that see the same bytes: without the fast path in one packet, with it in many."""

    def __init__(self, folder: Path) -> None:
        self._runner = asyncio.Runner()
        self._exit = AsyncExitStack()
        self._listeners = self._runner.run(self._start(folder))

    async def _start(self, folder: Path) -> list[Listener]:
        listeners = []
        for is_fast in (False, True):
            database = folder / f"{is_fast}.db"
            coordinator = await self._exit.enter_async_context(coordinating(database))
            app = App(coordinator, rates=RateLimits(0))
            listeners.append(Listener(app, fast_path=is_fast))
        return listeners

    def replies(self, cut: list[bytes]) -> tuple[bytes, bytes]:
        return self._runner.run(self._replies(cut))

    async def _replies(self, cut: list[bytes]) -> tuple[bytes, bytes]:
        plain, fast = self._listeners
        whole = await replies_of(plain, [b"".join(cut)])
        return whole, await replies_of(fast, cut)

    def close(self) -> None:
        self._runner.run(self._exit.aclose())
        self._runner.close()


async def replies_of(listener: Listener, cut: list[bytes]) -> bytes:
    """Each packet is given to the connection as it is, as a socket might."""
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    loop = asyncio.get_running_loop()
    transport, connection = await loop.connect_accepted_socket(listener.connect, ours)
    assert isinstance(connection, Connection)
    received = bytearray()
    async with asyncio.timeout(ANSWER_SECONDS):
        for packet in cut:
            await settled(connection, theirs, received)
            if transport.is_closing():
                break
            connection.data_received(packet)
        await settled(connection, theirs, received)
    transport.abort()
    theirs.close()
    return masked(bytes(received))


async def settled(connection: Connection, theirs: socket.socket, received: bytearray) -> None:
    """Until the connection has nothing left to do but to wait for more bytes."""
    for _ in range(3):
        await asyncio.sleep(0)
        while connection.phase is Phase.BUSY or connection.flow.read_paused:
            await asyncio.sleep(0.0005)
            take(theirs, received)
        take(theirs, received)


def take(theirs: socket.socket, received: bytearray) -> None:
    try:
        while data := theirs.recv(65536):
            received += data
    except BlockingIOError:
        pass


def masked(replies: bytes) -> bytes:
    replies = re.sub(
        rb'"(created_at|uptime_seconds|started_at|version)":("[^"]*"|\d+)', b"*", replies
    )
    return re.sub(rb"content-length: \d+", b"content-length: *", replies)


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sides]:
    both = Sides(tmp_path_factory.mktemp("bytes"))
    yield both
    both.close()


@settings(
    max_examples=examples(150),
    deadline=None,
    derandomize=FACTOR == 1,
    database=None,
    suppress_health_check=list(HealthCheck),
)
@given(cut=packets())
@example([REGISTER])
@example([REGISTER])
@example([REGISTER[:-17], REGISTER[-17:]])
@example([REGISTER + REGISTER[:-13], REGISTER[-13:] + REGISTER])
@example([LIST])
@example([LIST])
@example([LIST[:-4], b"\r\nOrigin: http://evil.example\r\n\r\n"])
@example([LIST[:-2], b"Content-Length: 2\r\n\r\n{}"])
@example([LIST[:-4] + b"\r\n", b"\r\n" + LIST])
def test_the_same_bytes_get_the_same_replies(sides: Sides, cut: list[bytes]) -> None:
    whole, in_pieces = sides.replies(cut)
    assert in_pieces == whole


def test_each_request_of_the_corpus_gets_a_reply_or_the_connection_ends(sides: Sides) -> None:
    """So the comparison above compares something."""
    whole, in_pieces = sides.replies([REGISTER * 2, LIST])
    assert whole == in_pieces
    assert whole.count(b"HTTP/1.1 200 OK") == 3
    refused, _ = sides.replies([b"BREW / HTTP/1.1\r\n\r\n"])
    assert refused.startswith(b"HTTP/1.1 400")
