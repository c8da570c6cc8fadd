"""Attacks on the parser of requests: none gets a second request in, none stops the server."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing
from urllib.parse import urlsplit

import pytest

from tests.client import ANSWER_SECONDS, Client
from tests.running import RunningServer

pytestmark = pytest.mark.requirement("SW-06", "SW-12")

TYPE = b"Content-Type: application/json\r\n"
INNER_BODY = b'{"name":"smuggled"}'
INNER = (
    b"POST /bus/register_worker HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    + TYPE
    + b"Content-Length: %d\r\n\r\n%b" % (len(INNER_BODY), INNER_BODY)
)
START = b"POST /bus/list_tasks HTTP/1.1\r\nHost: 127.0.0.1\r\n" + TYPE
CHUNKED = b"Transfer-Encoding: chunked\r\n"
# The inner request as one chunk, or as what is left after an empty body.
ONE_CHUNK = b"%x\r\n%b\r\n0\r\n\r\n" % (len(INNER), INNER)
NO_CHUNK = b"0\r\n\r\n" + INNER

# name, what is sent: the inner request must never run.
SMUGGLED: list[tuple[str, bytes]] = [
    ("length and chunks", START + b"Content-Length: 5\r\n" + CHUNKED + b"\r\n" + NO_CHUNK),
    ("chunks and length", START + CHUNKED + b"Content-Length: 4\r\n\r\n" + NO_CHUNK),
    (
        "two lengths",
        START + b"Content-Length: 0\r\nContent-Length: %d\r\n\r\n" % len(INNER) + INNER,
    ),
    ("a list of lengths", START + b"Content-Length: 0, %d\r\n\r\n" % len(INNER) + INNER),
    ("a signed length", START + b"Content-Length: +%d\r\n\r\n" % len(INNER) + INNER),
    ("a negative length", START + b"Content-Length: -1\r\n\r\n" + INNER),
    ("a hexadecimal length", START + b"Content-Length: 0x10\r\n\r\n" + INNER),
    ("a length with a space inside", START + b"Content-Length: 1 0\r\n\r\n" + INNER),
    (
        "a length beyond all numbers",
        START + b"Content-Length: 99999999999999999999\r\n\r\n" + INNER,
    ),
    ("a length in other digits", START + "Content-Length: ２\r\n\r\n".encode() + INNER),
    ("an empty length", START + b"Content-Length: \r\n\r\n" + INNER),
    ("a space before the colon", START + b"Content-Length : 0\r\n\r\n" + INNER),
    ("a tab before the colon", START + b"Transfer-Encoding\t: chunked\r\n\r\n" + NO_CHUNK),
    ("an unknown coding", START + b"Transfer-Encoding: xchunked\r\n\r\n" + ONE_CHUNK),
    ("identity", START + b"Transfer-Encoding: identity\r\n\r\n" + INNER),
    ("chunked is not last", START + b"Transfer-Encoding: chunked, identity\r\n\r\n" + ONE_CHUNK),
    ("two codings", START + CHUNKED + b"Transfer-Encoding: identity\r\n\r\n" + ONE_CHUNK),
    ("a folded coding", START + b"Transfer-Encoding:\r\n chunked\r\n\r\n" + ONE_CHUNK),
    (
        "a coding after a vertical tab",
        START + b"Transfer-Encoding: \x0bchunked\r\n\r\n" + ONE_CHUNK,
    ),
    ("a bare CR in a header", START + b"X: a\rContent-Length: 0\r\n\r\n" + INNER),
    ("a NUL in a header", START + b"X: a\x00b\r\n\r\n" + INNER),
    ("a bare LF in a header", START + b"X: a\nTransfer-Encoding: chunked\r\n\r\n" + ONE_CHUNK),
    ("a header without a colon", START + b"Content-Length 0\r\n\r\n" + INNER),
    ("a header without a name", START + b": chunked\r\n\r\n" + INNER),
    ("a chunk that is too long", START + CHUNKED + b"\r\nffffffffffffffffff\r\n" + INNER),
    ("a negative chunk", START + CHUNKED + b"\r\n-1\r\n" + INNER),
    ("a chunk with an underscore", START + CHUNKED + b"\r\n1_0\r\n" + INNER),
    ("a chunk without its end", START + CHUNKED + b"\r\n2\r\n{}" + INNER),
    ("a chunk size with a bare LF", START + CHUNKED + b"\r\n2\n{}\r\n0\r\n\r\n"[:6] + INNER),
    ("HTTP/0.9", b"POST /bus/list_tasks\r\n" + INNER),
    ("HTTP/2.0", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + INNER),
    ("a version that is none", START.replace(b"1.1", b"1.1.1") + b"\r\n" + INNER),
    ("a tunnel", b"CONNECT 127.0.0.1:80 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" + INNER),
    (
        "an upgrade with a body",
        START
        + b"Connection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: %d\r\n\r\n" % len(INNER)
        + INNER,
    ),
    (
        "a websocket",
        b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        b"Content-Length: %d\r\n\r\n" % len(INNER) + INNER,
    ),
    (
        "a body of GET",
        b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n" % len(INNER)
        + INNER,
    ),
    (
        "a long body that is refused",
        START.replace(TYPE, b"") + b"Content-Length: %d\r\n\r\n" % len(INNER) + INNER,
    ),
    (
        "an escaped line end in the path",
        START.replace(b"list_tasks", b"list_tasks%0d%0a%0d%0a")
        + b"Content-Length: %d\r\n\r\n" % len(INNER)
        + INNER,
    ),
]

# path, status
PATHS: list[tuple[bytes, int]] = [
    (b"/bus/../operator/waive", 404),
    (b"/bus/%2e%2e/operator/waive", 404),
    (b"/bus/..%2foperator/waive", 404),
    (b"/operator%2fwaive", 403),
    (b"/%6fperator/waive", 403),
    (b"/operator/waive/", 403),
    (b"//operator/waive", 404),
    (b"/OPERATOR/waive", 404),
    (b"/operator;/waive", 404),
    (b"/operator/waive%00", 403),
    (b"/ci/webhook/../../operator/waive", 404),
    (b"/ci/webhook/%2e%2e%2f%2e%2e%2foperator%2fwaive", 404),
    (b"/bus/register_worker/", 404),
    (b"/bus/register_worker%20", 404),
    (b"/bus/register_worker%00", 404),
    (b"/bus/register%5fworker%3fx=1", 404),
    (b"/bus/\xc0\xae\xc0\xae/health", 400),
    (b"/%ff%fe", 404),
    (b"/%", 404),
    (b"/%u0041", 404),
    (b"http://evil.example/operator/waive", 403),
]


@pytest.fixture(scope="module", params=[True, False], ids=["fast path", "plain ASGI"])
def server(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[RunningServer]:
    database = tmp_path_factory.mktemp("raw") / "shiftboss.db"
    running = RunningServer(database, fast_path=request.param, rate_limit=0)
    try:
        yield running.start()
    finally:
        running.close()


def exchange(server: RunningServer, *packets: bytes) -> bytes:
    """All replies, up to the end of the connection. Unless the request itself ends it, the server
    sees that nothing more comes."""
    address = urlsplit(server.url)
    with closing(
        socket.create_connection((address.hostname, address.port), ANSWER_SECONDS)
    ) as peer:
        try:
            for packet in packets:
                peer.sendall(packet)
            if b"Connection: close" not in packets[0]:
                peer.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # refused before it was sent
        replies = b""
        try:
            while data := peer.recv(65536):
                replies += data
        except ConnectionResetError:
            pass
        return replies


def workers(server: RunningServer) -> list[str]:
    with closing(Client(server.url)) as client:
        status = client.post("/bus/get_status", {}).json()
    return [worker["name"] for worker in status["workers"]]


def statuses(replies: bytes) -> list[int]:
    return [int(part[:3]) for part in replies.split(b"HTTP/1.1 ")[1:]]


@pytest.mark.parametrize(("name", "sent"), SMUGGLED, ids=[name for name, _ in SMUGGLED])
def test_no_request_hides_in_another(server: RunningServer, name: str, sent: bytes) -> None:
    for packets in ([sent], [sent[: len(sent) // 2], sent[len(sent) // 2 :]]):
        replies = exchange(server, *packets)
        assert len(statuses(replies)) <= 1, name
        assert all(status < 500 for status in statuses(replies))
        assert workers(server) == []


@pytest.mark.parametrize(("path", "status"), PATHS)
def test_no_way_of_writing_a_path_gets_past_access_control(
    server: RunningServer, path: bytes, status: int
) -> None:
    body = b"{}"
    head = b"POST %b HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n" % path
    replies = exchange(server, head + TYPE + b"Content-Length: 2\r\n\r\n" + body)
    assert statuses(replies) == [status]


@pytest.mark.parametrize(
    "method", [b"GET", b"PUT", b"PATCH", b"DELETE", b"OPTIONS", b"TRACE", b"PROPFIND", b"M-SEARCH"]
)
def test_other_methods_are_refused_with_those_that_are_allowed(
    server: RunningServer, method: bytes
) -> None:
    for path, allowed in (
        (b"/bus/register_worker", b"POST"),
        (b"/mcp", b"POST"),
        (b"/swarm/s/progress", b"POST"),
        (b"/swarms", b"GET, HEAD"),
    ):
        head = b"%b %b HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n" % (method, path)
        replies = exchange(server, head)
        if method == b"GET" and path == b"/swarms":
            assert statuses(replies) == [200]
            continue
        assert statuses(replies) == [405]
        assert b"\r\nallow: %b\r\n" % allowed in replies
        assert b"access-control" not in replies.lower()
