"""Responses as bytes, in any pieces, and what is none."""

from __future__ import annotations

import pytest

from shiftboss.client.http_response import BadResponseError, Response, request_bytes

PLAIN = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-A:  b \r\n\r\n{}"
CHUNKED = (
    b"HTTP/1.1 409 Conflict\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n"
)
TO_THE_END = b"HTTP/1.0 200 OK\r\n\r\nall"
AFTER_INTERIM = b"HTTP/1.1 100 Continue\r\n\r\n" + PLAIN


def fed(data: bytes, size: int, *, ends: bool = False) -> Response:
    response = Response()
    for start in range(0, len(data), size):
        assert not response.is_complete
        response.feed(data[start : start + size])
    if ends:
        response.feed(b"")
    return response


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_a_response_may_come_in_any_pieces(size: int) -> None:
    plain = fed(PLAIN, size)
    assert (plain.status_code, plain.content, plain.is_success) == (200, b"{}", True)
    assert plain.headers["x-a"] == "b"
    assert plain.is_complete
    assert plain.keeps_open
    assert fed(AFTER_INTERIM, size).content == b"{}"
    chunked = fed(CHUNKED, size)
    assert (chunked.status_code, chunked.content, chunked.is_complete) == (409, b"abcde", True)
    assert chunked.keeps_open
    closed = fed(TO_THE_END, size, ends=True)
    assert (closed.content, closed.keeps_open, closed.is_complete) == (b"all", False, True)


@pytest.mark.parametrize(
    "data",
    [
        PLAIN.replace(b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\nConnection: close\r\n"),
        PLAIN.replace(b"1.1", b"1.0"),
        PLAIN + b"x",
        CHUNKED + b"x",
        PLAIN.replace(b"X-A:", b"Connection: close\r\nConnection: keep-alive\r\nX-A:"),
        CHUNKED.replace(b"Conflict\r\n", b"Conflict\r\nContent-Length: 30\r\n"),
    ],
)
def test_the_connection_is_not_used_again_after_these(data: bytes) -> None:
    response = fed(data, 1000)
    assert response.is_complete
    assert not response.keeps_open


@pytest.mark.parametrize(
    "data",
    [
        b"\x15\x03\x01\x00\x02\x02\x16\r\n\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n folded: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n",
        b"HTTP/1.1 2\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1" * 2000,
        b"x" * 70_000,
    ],
)
def test_anything_else_is_no_response(data: bytes) -> None:
    with pytest.raises(BadResponseError):
        fed(data, 100_000)


@pytest.mark.parametrize("data", [b"", PLAIN[:-1], PLAIN[:20], CHUNKED[:-3]])
def test_a_connection_that_ends_early_is_an_error(data: bytes) -> None:
    with pytest.raises(BadResponseError, match="closed"):
        fed(data, 1000, ends=True)


def test_a_request_is_one_message() -> None:
    message = request_bytes("/bus/x", "h:1", {"a": "b"}, {"title": "ü"})
    assert (
        message
        == (
            "POST /bus/x HTTP/1.1\r\nhost: h:1\r\na: b\r\ncontent-type: application/json\r\n"
            'content-length: 14\r\n\r\n{"title":"ü"}'
        ).encode()
    )
    assert request_bytes("/p", "h", {}, None) == b"GET /p HTTP/1.1\r\nhost: h\r\n\r\n"
