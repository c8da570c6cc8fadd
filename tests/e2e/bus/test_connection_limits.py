"""What clients that send too much, too slowly or nothing at all can make the server hold."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import resource
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from shiftboss.server.http import open_connections
from shiftboss.server.http.app import App
from shiftboss.server.http.connection import HEAD_BYTES_MAX, HEADERS_MAX
from shiftboss.server.http.open_connections import ConnectionLimits, Phase
from shiftboss.server.http.rate_limits import RateLimits
from shiftboss.server.http.routes import WEBHOOKS_AT_ONCE
from tests.client import ANSWER_SECONDS
from tests.listener import Listener, coordinating

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("SW-12")]

SHORT = ConnectionLimits(
    head_seconds=0.2,
    body_seconds=0.2,
    idle_seconds=0.2,
    stalled_seconds=0.2,
    closing_seconds=0.2,
)
HEAD = "POST /bus/register_worker HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
REGISTER = f'{HEAD}Content-Length: 12\r\n\r\n{{"name":"w"}}'.encode()


@pytest.fixture(params=[True, False], ids=["fast path", "plain ASGI"])
def fast_path(request: pytest.FixtureRequest) -> bool:
    is_fast: bool = request.param
    return is_fast


class Reply(NamedTuple):
    status: int
    headers: dict[str, str]
    body: Any


class Peer:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def send(self, *parts: bytes) -> None:
        for part in parts:
            self._writer.write(part)
            await self._writer.drain()

    async def send_without_end(self, data: bytes) -> None:
        async with asyncio.timeout(ANSWER_SECONDS):
            while True:
                await self.send(data)
                await asyncio.sleep(0)

    async def reply(self) -> Reply:
        async with asyncio.timeout(ANSWER_SECONDS):
            head = (await self._reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            headers = dict(line.lower().split(": ", 1) for line in head[1:-2])
            body = await self._reader.readexactly(int(headers["content-length"]))
        return Reply(int(head[0].split()[1]), headers, json.loads(body))

    async def is_closed(self) -> bool:
        async with asyncio.timeout(ANSWER_SECONDS):
            try:
                return await self._reader.read() == b""
            except ConnectionResetError:
                return True

    def close(self) -> None:
        self._writer.transport.abort()


@asynccontextmanager
async def served(
    folder: Path,
    fast_path: bool,
    limits: ConnectionLimits | None = None,
    rates: RateLimits | None = None,
    token: str | None = None,
) -> AsyncIterator[Listener]:
    async with coordinating(folder / "shiftboss.db") as coordinator:
        app = App(coordinator, token, rates=rates)
        async with Listener(app, fast_path=fast_path, limits=limits).listening() as listener:
            yield listener


@asynccontextmanager
async def connected(listener: Listener) -> AsyncIterator[Peer]:
    peer = Peer(*await asyncio.open_connection(listener.host, listener.port))
    yield peer
    peer.close()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(ANSWER_SECONDS):
        while not condition():  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0)


async def is_alive(listener: Listener) -> bool:
    async with connected(listener) as peer:
        await peer.send(REGISTER)
        return (await peer.reply()).status == 200


@pytest.mark.parametrize(
    "head",
    [
        pytest.param(HEAD.encode() + b"X: x\r\n" * HEADERS_MAX, id="many headers"),
        pytest.param(HEAD.encode() + b"X:\r\n" * 200_000, id="endless empty headers"),
        pytest.param(HEAD.encode() + b"X: " + b"x" * 4_000_000, id="an endless header"),
        pytest.param(HEAD.encode() + b"x" * 4_000_000, id="an endless name"),
        pytest.param(b"POST /" + b"x" * 4_000_000, id="an endless path"),
        pytest.param(HEAD.encode() + b"X: y\r\n y\r\n" * 200_000, id="folded headers"),
        pytest.param(
            HEAD.encode() + b"".join(b"X: %b\r\n" % (b"x" * 9_000) for _ in range(9)) + b"\r\n",
            id="a large complete head",
        ),
    ],
)
async def test_a_head_is_limited_in_count_and_size(
    tmp_path: Path, fast_path: bool, head: bytes
) -> None:
    async with served(tmp_path, fast_path) as listener:
        async with connected(listener) as peer:
            try:
                await peer.send(head)
                refusal = await peer.reply()
            except ConnectionError:
                pass  # closed while the rest was on its way
            else:
                assert (refusal.status, refusal.headers["connection"]) in (
                    (431, "close"),
                    (400, "close"),
                )
                assert refusal.body["code"] in ("head_too_large", "malformed_request")
        connection = listener.connections[0]
        assert len(connection.headers) <= HEADERS_MAX
        assert await is_alive(listener)


async def test_an_ordinary_head_is_below_the_limits(tmp_path: Path, fast_path: bool) -> None:
    more = b"".join(b"X-%d: %b\r\n" % (number, b"x" * 600) for number in range(HEADERS_MAX - 4))
    assert len(more) < HEAD_BYTES_MAX
    async with served(tmp_path, fast_path) as listener, connected(listener) as peer:
        for _ in range(2):
            await peer.send(REGISTER.replace(b"\r\n\r\n", b"\r\n" + more + b"\r\n"))
            assert (await peer.reply()).status == 200


async def test_pipelined_requests_are_not_taken_for_one_large_head(
    tmp_path: Path, fast_path: bool
) -> None:
    requests = REGISTER * 1_200
    assert len(requests) > 2 * HEAD_BYTES_MAX
    async with served(tmp_path, fast_path) as listener, connected(listener) as peer:
        sending = asyncio.create_task(
            peer.send(*(requests[at : at + 70_000] for at in range(0, len(requests), 70_000)))
        )
        for _ in range(1_200):
            assert (await peer.reply()).status == 200
        await sending


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        pytest.param(b"", None, id="nothing"),
        pytest.param(b"\r\n", None, id="an empty line"),
        pytest.param(b"P", 408, id="a letter"),
        pytest.param(REGISTER[:-40], 408, id="half a head"),
        pytest.param(REGISTER[:-13], 408, id="a head without its last byte"),
        pytest.param(REGISTER[:-12], 408, id="no body"),
        pytest.param(REGISTER[:-1], 408, id="a body without its last byte"),
        pytest.param(
            HEAD.encode() + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n", 408, id="a chunk"
        ),
        pytest.param(HEAD.encode() + b"Content-Length: 9\r\n\r\n", 408, id="another length"),
        pytest.param(
            HEAD.encode() + b"Content-Length: 9\r\nExpect: 100-continue\r\n\r\n",
            100,
            id="waits for 100",
        ),
    ],
)
async def test_a_request_has_to_arrive_in_time(
    tmp_path: Path, fast_path: bool, sent: bytes, status: int | None
) -> None:
    async with served(tmp_path, fast_path, SHORT) as listener, connected(listener) as peer:
        await peer.send(sent)
        if status == 100:
            async with asyncio.timeout(ANSWER_SECONDS):
                await peer._reader.readuntil(b"100 Continue\r\n\r\n")
        if status is not None:
            late = await peer.reply()
            assert (late.status, late.body["code"]) == (408, "request_timeout")
        assert await peer.is_closed()


async def test_a_drop_now_and_then_does_not_keep_a_connection(
    tmp_path: Path, fast_path: bool
) -> None:
    """Slowloris: bytes that come do not extend the time of the head."""
    async with served(tmp_path, fast_path, SHORT) as listener, connected(listener) as peer:
        waiting = asyncio.create_task(peer.reply())
        try:
            for byte in REGISTER[:-20]:
                await peer.send(bytes([byte]))
                done, _ = await asyncio.wait([waiting], timeout=0.05)
                if done:
                    break
        except ConnectionError:
            pass
        assert (await waiting).status == 408


async def test_an_empty_line_does_not_keep_an_idle_connection(
    tmp_path: Path, fast_path: bool
) -> None:
    async with served(tmp_path, fast_path, SHORT) as listener, connected(listener) as peer:
        await peer.send(REGISTER)
        assert (await peer.reply()).status == 200
        await peer.send(b"\r\n")
        assert await peer.is_closed()


async def test_polls_and_streams_are_not_idle(tmp_path: Path, fast_path: bool) -> None:
    async with (
        served(tmp_path, fast_path, SHORT) as listener,
        connected(listener) as poller,
        connected(listener) as reader,
    ):
        await poller.send(REGISTER)
        assert (await poller.reply()).status == 200
        body = b'{"name":"w","timeout_ms":600}'
        head = HEAD.replace("register_worker", "poll_task")
        await poller.send(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        await reader.send(b"GET /swarm/default/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        polled = await poller.reply()
        assert (polled.status, polled.body["timeout"]) == (200, True)
        assert not listener.connections[1].transport.is_closing()


async def test_a_client_that_does_not_read_is_disconnected(tmp_path: Path, fast_path: bool) -> None:
    asks = b"GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 20
    async with served(tmp_path, fast_path, SHORT) as listener, connected(listener) as peer:
        peer._writer.transport.pause_reading()  # type: ignore[attr-defined]
        with pytest.raises(ConnectionError):
            await peer.send_without_end(asks)
        assert await is_alive(listener)


async def test_a_new_connection_takes_the_place_of_a_silent_one(
    tmp_path: Path, fast_path: bool
) -> None:
    limits = ConnectionLimits(connections_max=3)
    async with (
        served(tmp_path, fast_path, limits) as listener,
        connected(listener) as silent,
        connected(listener),
        connected(listener),
    ):
        assert await is_alive(listener)
        assert await silent.is_closed()


async def test_a_full_server_refuses_and_recovers(
    tmp_path: Path, fast_path: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Polls are not idle: nobody makes room for the next connection."""
    limits = ConnectionLimits(connections_max=2)
    body = b'{"name":"w","timeout_ms":600000}'
    head = HEAD.replace("register_worker", "poll_task")
    poll = f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
    async with served(tmp_path, fast_path, limits) as listener:
        assert await is_alive(listener)
        async with connected(listener) as first, connected(listener) as second:
            for peer in (first, second):
                await peer.send(poll)
            await until(lambda: len(listener.open_connections._seen) == 2)
            with caplog.at_level(logging.WARNING):
                for _ in range(3):
                    async with connected(listener) as refused:
                        refusal = await refused.reply()
                        assert (refusal.status, refusal.headers["retry-after"]) == (503, "1")
                        assert refusal.body["code"] == "too_many_connections"
                        assert await refused.is_closed()
            lines = [record.getMessage() for record in caplog.records]
            assert lines == ["2 connections are open, as many as may be: further ones are refused"]
        await until(lambda: not listener.open_connections._seen)
        assert await is_alive(listener)


async def test_at_the_limit_of_open_files_new_connections_replace_silent_ones(
    tmp_path: Path,
    fast_path: bool,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The server keeps away from the limit: there it could not even open its database."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    monkeypatch.setattr(open_connections, "DESCRIPTORS_RESERVED", files - 5)
    async with served(tmp_path, fast_path) as listener, AsyncExitStack() as silent:
        with caplog.at_level(logging.WARNING):
            for _ in range(20):
                await silent.enter_async_context(connected(listener))
        assert await is_alive(listener)
        assert len(listener.open_connections._seen) <= 5
    assert "connections are open, as many as may be: idle ones are closed" in caplog.text


async def test_without_a_free_descriptor_it_says_so_and_closes_silent_connections(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the event loop closes new connections without a word."""
    monkeypatch.setattr(open_connections, "FREED_AT_ONCE", 1)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    async with served(tmp_path, True) as listener, connected(listener) as silent:
        await until(lambda: bool(listener.open_connections._seen))
        lowest = os.dup(0)
        os.close(lowest)
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
            with caplog.at_level(logging.WARNING):
                listener.open_connections.check()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert "no more files can be opened (Too many open files)" in caplog.text
        assert await silent.is_closed()
        assert await is_alive(listener)


async def test_a_client_over_its_rate_gets_429_and_its_connection_stays(
    tmp_path: Path, fast_path: bool
) -> None:
    now = 1000.0
    rates = RateLimits(1, lambda: now)
    async with served(tmp_path, fast_path, rates=rates) as listener, connected(listener) as peer:
        replies = []
        for _ in range(6):
            await peer.send(REGISTER)
            replies.append(await peer.reply())
        assert [reply.status for reply in replies] == [200] * 4 + [429] * 2
        assert (replies[-1].body["code"], replies[-1].headers["retry-after"]) == (
            "too_many_requests",
            "1",
        )
        now += 1.0
        await peer.send(REGISTER)
        assert (await peer.reply()).status == 200


async def test_a_refused_request_counts_once(tmp_path: Path, fast_path: bool) -> None:
    rates = RateLimits(1, lambda: 1000.0)
    refused = REGISTER.replace(b"Host: 127.0.0.1", b"Host: evil.example")
    async with served(tmp_path, fast_path, rates=rates) as listener, connected(listener) as peer:
        statuses = []
        for _ in range(5):
            await peer.send(refused)
            statuses.append((await peer.reply()).status)
    assert statuses == [403] * 4 + [429]


async def test_guessing_tokens_is_limited_but_the_right_token_still_works(
    tmp_path: Path, fast_path: bool
) -> None:
    rates = RateLimits(5000, lambda: 1000.0)
    guess = REGISTER.replace(b"Host:", b"Authorization: Bearer wrong\r\nHost:")
    async with (
        served(tmp_path, fast_path, rates=rates, token="right") as listener,
        connected(listener) as guesser,
        connected(listener) as worker,
    ):
        statuses = []
        for _ in range(201):
            await guesser.send(guess)
            statuses.append((await guesser.reply()).status)
        assert statuses == [401] * 200 + [429]
        await worker.send(guess.replace(b"wrong", b"right"))
        assert (await worker.reply()).status == 200


async def test_refused_requests_do_not_use_up_what_the_workers_of_the_address_may_send(
    tmp_path: Path, fast_path: bool
) -> None:
    rates = RateLimits(1, lambda: 1000.0)
    foreign = REGISTER.replace(b"Host:", b"Origin: http://evil.example\r\nHost:")
    async with (
        served(tmp_path, fast_path, rates=rates) as listener,
        connected(listener) as page,
        connected(listener) as worker,
    ):
        statuses = []
        for _ in range(6):
            await page.send(foreign)
            statuses.append((await page.reply()).status)
        assert statuses == [403] * 4 + [429] * 2
        await worker.send(REGISTER)
        assert (await worker.reply()).status == 200


async def test_bodies_that_nobody_completes_make_room_for_others(
    tmp_path: Path, fast_path: bool
) -> None:
    """A webhook has no token, so anybody can begin one."""
    limits = ConnectionLimits(connections_max=2)
    begun = b"POST /ci/webhook/app HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n{"
    async with (
        served(tmp_path, fast_path, limits, token="right") as listener,
        connected(listener) as first,
        connected(listener) as second,
    ):
        for peer in (first, second):
            await peer.send(begun)
        await until(lambda: all(one.phase is Phase.BODY for one in listener.connections))
        async with connected(listener) as worker:
            await worker.send(REGISTER.replace(b"Host:", b"Authorization: Bearer right\r\nHost:"))
            assert (await worker.reply()).status == 200
        assert await first.is_closed()


async def test_only_some_bodies_without_a_token_are_held_at_once(
    tmp_path: Path, fast_path: bool
) -> None:
    begun = b"POST /ci/webhook/app HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n{"
    async with served(tmp_path, fast_path, token="right") as listener, AsyncExitStack() as stack:
        for _ in range(WEBHOOKS_AT_ONCE):
            peer = await stack.enter_async_context(connected(listener))
            await peer.send(begun)
        await until(lambda: all(one.phase is Phase.BODY for one in listener.connections))
        async with connected(listener) as further:
            await further.send(begun)
            refusal = await further.reply()
        assert (refusal.status, refusal.headers["retry-after"]) == (429, "5")
        await peer.send(b"12345678")
        assert (await peer.reply()).status == 403
        async with connected(listener) as next_one:
            await next_one.send(begun + b"12345678")
            assert (await next_one.reply()).status == 403


async def test_a_refused_request_does_not_get_to_send_its_body(
    tmp_path: Path, fast_path: bool
) -> None:
    """Nothing is kept for a client that access control refuses."""
    async with (
        served(tmp_path, fast_path, token="right") as listener,
        connected(listener) as peer,
    ):
        await peer.send(REGISTER[:-12])
        refusal = await peer.reply()
        assert (refusal.status, refusal.headers["www-authenticate"]) == (401, "bearer")
