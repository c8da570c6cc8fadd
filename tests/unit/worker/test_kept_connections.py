"""Connections that are kept between requests, against a server of a few lines."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from shiftboss.client.http_client import HttpClient, ServerRequest
from shiftboss.client.kept_connections import KeptConnections
from shiftboss.client.servers import Servers
from shiftboss.errors import Unauthorized

LIMITS = httpx2.Timeout(30.0)
REPLY = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


class LittleServer:
    """Answers every packet with REPLY. `closes_after`: the replies on one connection."""

    def __init__(self) -> None:
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.connections = 0
        self.requests = 0
        self.closes_after = 1_000
        self.closed = threading.Semaphore(0)
        self.is_silent = False
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.listening.getsockname()[1]}"

    def _accept(self) -> None:
        while True:
            try:
                opened, _ = self.listening.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._serve, args=(opened,), daemon=True).start()

    def _serve(self, opened: socket.socket) -> None:
        with opened:
            for _ in range(self.closes_after):
                if not opened.recv(65_536):
                    break
                self.requests += 1
                if not self.is_silent:
                    opened.sendall(REPLY)
        self.closed.release()


@pytest.fixture
def server() -> Iterator[LittleServer]:
    it = LittleServer()
    yield it
    it.listening.close()


@pytest.fixture
def kept(server: LittleServer) -> KeptConnections:
    return KeptConnections(server.url, "secret")


def post(kept: KeptConnections, limits: httpx2.Timeout = LIMITS) -> bytes:
    return kept.exchange_blocking("/p", {}, {}, limits, is_repeatable=True).content


async def post_async(kept: KeptConnections, limits: httpx2.Timeout = LIMITS) -> bytes:
    return (await kept.exchange("/p", {}, {}, limits, is_repeatable=True)).content


def test_threads_and_event_loops_use_the_same_connection(
    server: LittleServer, kept: KeptConnections
) -> None:
    for _ in range(3):
        assert post(kept) == b"{}"
        assert asyncio.run(post_async(kept)) == b"{}"
    assert (server.connections, server.requests) == (1, 6)


def test_one_that_the_server_has_closed_is_replaced(
    server: LittleServer, kept: KeptConnections
) -> None:
    server.closes_after = 1
    for _ in range(2):
        post(kept)
        assert server.closed.acquire(timeout=30)
        asyncio.run(post_async(kept))
        assert server.closed.acquire(timeout=30)
    assert (server.connections, server.requests) == (4, 4)


def test_those_with_a_token_that_was_replaced_are_closed(
    server: LittleServer, tmp_path: Path
) -> None:
    token_file = tmp_path / "token"
    token_file.touch(mode=0o600)
    token_file.write_text("old")
    servers = Servers.at(server.url, token_file=token_file)
    client = HttpClient(servers)
    client.send_blocking(ServerRequest(path="/p"))
    token_file.write_text("new")
    servers.note_refused(servers.current, Unauthorized("not accepted"))
    client.send_blocking(ServerRequest(path="/p"))
    assert server.closed.acquire(timeout=30)
    assert server.connections == 2


async def _several(kept: KeptConnections) -> None:
    await asyncio.gather(*(post_async(kept) for _ in range(20)))


def test_a_connection_has_one_request_at_a_time(
    server: LittleServer, kept: KeptConnections
) -> None:
    asyncio.run(_several(kept))
    assert server.requests == 20
    assert len(kept._idle) <= 8


async def _given_up(kept: KeptConnections, server: LittleServer) -> None:
    call = asyncio.ensure_future(post_async(kept))
    async with asyncio.timeout(30):
        while not server.requests:  # noqa: ASYNC110 - of a thread
            await asyncio.sleep(0.001)
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)


def test_a_request_that_was_given_up_closes_its_connection(
    server: LittleServer, kept: KeptConnections
) -> None:
    server.is_silent = True
    asyncio.run(_given_up(kept, server))
    assert server.closed.acquire(timeout=30)
    assert not kept._idle


def test_a_fork_opens_its_own(server: LittleServer, kept: KeptConnections) -> None:
    post(kept)
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if post(kept) == b"{}" else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert post(kept) == b"{}"
    assert (server.connections, server.requests) == (2, 3)


def test_a_silent_server_ends_the_wait(server: LittleServer, kept: KeptConnections) -> None:
    server.is_silent = True
    short = httpx2.Timeout(30.0, read=0.01)
    with pytest.raises(httpx2.ReadTimeout):
        post(kept, short)
    with pytest.raises(httpx2.ReadTimeout):
        asyncio.run(post_async(kept, short))


@pytest.mark.parametrize("in_a_loop", [True, False])
def test_a_server_may_refuse_a_request_before_it_has_all_of_it(*, in_a_loop: bool) -> None:
    def refuse() -> None:
        opened, _ = listening.accept()
        with opened:
            opened.recv(1000)
            opened.sendall(REPLY.replace(b"200 OK", b"413 Too Large"))

    with socket.create_server(("127.0.0.1", 0)) as listening:
        refusing = threading.Thread(target=refuse)
        refusing.start()
        kept = KeptConnections(f"http://127.0.0.1:{listening.getsockname()[1]}", None)
        body = {"large": "x" * 2**25}
        if in_a_loop:
            response = asyncio.run(kept.exchange("/p", {}, body, LIMITS, is_repeatable=True))
        else:
            response = kept.exchange_blocking("/p", {}, body, LIMITS, is_repeatable=True)
        refusing.join()
    assert response.status_code == 413


@pytest.mark.parametrize("host", ["a..b", "a" * 70])
def test_a_name_that_no_host_can_have(host: str) -> None:
    kept = KeptConnections(f"http://{host}:80", None)
    with pytest.raises(httpx2.ConnectError):
        post(kept)
    with pytest.raises(httpx2.ConnectError):
        asyncio.run(post_async(kept))


def test_nobody_there() -> None:
    nobody = socket.socket()
    nobody.bind(("127.0.0.1", 0))
    kept = KeptConnections(f"http://127.0.0.1:{nobody.getsockname()[1]}", None)
    with pytest.raises(httpx2.ConnectError):
        post(kept)
    with pytest.raises(httpx2.ConnectError):
        asyncio.run(post_async(kept))
    nobody.close()
