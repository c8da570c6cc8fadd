"""The cache of parsed request heads."""

from __future__ import annotations

from typing import cast

import pytest

from shiftboss.rules.access.actors import LOCAL
from shiftboss.server.fast_path import head_cache
from shiftboss.server.fast_path.exchange import FastExchange
from shiftboss.server.fast_path.head_cache import HEAD_BYTES_MAX, HEADERS_MAX, HeadCache
from shiftboss.server.http.calls import Call

HEAD = b"POST /bus/poll_task HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n"
CALL = cast(Call, object())


def exchange(body: bytes, *headers: tuple[bytes, bytes]) -> FastExchange:
    parsed = FastExchange(CALL, [(b"host", b"h"), *headers], LOCAL)
    parsed.body = body
    return parsed


def test_a_cached_head_is_found_with_a_body_of_its_length() -> None:
    heads = HeadCache()
    assert heads.find(HEAD + b"{}", 1) is None
    heads.learn(HEAD + b"{}", exchange(b"{}"), 1)
    cached = heads.find(HEAD + b"[]", 1)
    assert cached is not None
    head, body = cached
    assert (head.call, head.headers, body) == (CALL, [(b"host", b"h")], b"[]")


@pytest.mark.parametrize(
    "packet",
    [
        HEAD,
        HEAD + b"{",
        HEAD + b"{}" + HEAD + b"{}",
        HEAD[:-2],
        HEAD[:-4],
        b"\r\n" + HEAD + b"{}",
        b"",
    ],
)
def test_other_packets_are_not_found(packet: bytes) -> None:
    heads = HeadCache()
    heads.learn(HEAD + b"{}", exchange(b"{}"), 1)
    assert heads.find(packet, 1) is None


def test_the_beginning_of_a_cached_head_is_not_taken_for_it() -> None:
    """More headers and a body may follow in the next packet."""
    head = HEAD.replace(b"Content-Length: 2\r\n", b"")
    heads = HeadCache()
    heads.learn(head, exchange(b""), 1)
    assert heads.find(head, 1) is not None
    for end in range(len(head)):
        assert heads.find(head[:end], 1) is None


@pytest.mark.parametrize(
    ("packet", "read"),
    [
        pytest.param(HEAD + b"{}" + HEAD + b"{}", exchange(b"{}"), id="there is more in it"),
        pytest.param(b"\r\n\r\n" + HEAD + b"{}", exchange(b"{}"), id="something is ahead of it"),
        pytest.param(
            HEAD + b"{}", exchange(b"{}", (b"idempotency-key", b"k")), id="a key in another form"
        ),
        pytest.param(
            HEAD + b"{}", exchange(b"{}", *[(b"x", b"")] * HEADERS_MAX), id="many headers"
        ),
        pytest.param(
            HEAD.replace(b": h", b": " + b"h" * HEAD_BYTES_MAX) + b"{}", exchange(b"{}"), id="long"
        ),
    ],
)
def test_some_heads_are_not_cached(packet: bytes, read: FastExchange) -> None:
    heads = HeadCache()
    heads.learn(packet, read, 1)
    assert heads.find(packet, 1) is None
    assert heads.find(HEAD + b"{}", 1) is None


def test_the_cache_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(head_cache, "HEADS_MAX", 3)
    heads = HeadCache()
    packets = [HEAD.replace(b": h", b": h%d" % number) + b"{}" for number in range(4)]
    for packet in packets:
        heads.learn(packet, exchange(b"{}"), 1)
    assert [heads.find(packet, 1) is not None for packet in packets] == [False, False, False, True]


def with_key(*lines: bytes) -> bytes:
    return HEAD.replace(b"Content", b"".join(line + b"\r\n" for line in lines) + b"Content")


@pytest.mark.parametrize("name", [b"Idempotency-Key", b"idempotency-key"])
def test_a_cached_head_is_found_with_another_idempotency_key(name: bytes) -> None:
    heads = HeadCache()
    first = exchange(b"{}", (b"idempotency-key", b"k-1"))
    heads.learn(with_key(name + b": k-1") + b"{}", first, 1)
    cached = heads.find(with_key(name + b": k-2") + b"[]", 1)
    assert cached is not None
    head, body = cached
    assert (head.headers, body) == ([(b"host", b"h"), (b"idempotency-key", b"k-2")], b"[]")
    # What was learned stays as it was.
    again = heads.find(with_key(name + b": k-3") + b"{}", 1)
    assert again is not None
    assert again[0].headers == [(b"host", b"h"), (b"idempotency-key", b"k-3")]


@pytest.mark.parametrize(
    "packet",
    [
        pytest.param(HEAD, id="no key"),
        pytest.param(with_key(b"Idempotency-Key:  k"), id="more blanks"),
        pytest.param(with_key(b"Idempotency-Key: k "), id="a blank behind it"),
        pytest.param(with_key(b"Idempotency-Key: "), id="an empty one"),
        pytest.param(with_key(b"Idempotency-Key: k k"), id="two words"),
        pytest.param(with_key(b"Idempotency-Key: " + b"k" * 201), id="a long one"),
        pytest.param(with_key(b"Idempotency-Key: \xfc"), id="not ASCII"),
        pytest.param(with_key(b"Idempotency-Key: k", b"Idempotency-Key: k"), id="two keys"),
        pytest.param(with_key(b"Idempotency-Key: k", b" k"), id="a folded line"),
        pytest.param(with_key(b"X: Idempotency-Key: k"), id="in another header"),
    ],
)
def test_unusual_keys_are_parsed(packet: bytes) -> None:
    heads = HeadCache()
    heads.learn(
        with_key(b"Idempotency-Key: k") + b"{}", exchange(b"{}", (b"idempotency-key", b"k")), 1
    )
    assert heads.find(with_key(b"Idempotency-Key: k2") + b"{}", 1) is not None
    assert heads.find(packet + b"{}", 1) is None


def test_a_head_with_two_keys_is_not_cached() -> None:
    heads = HeadCache()
    key = (b"idempotency-key", b"k")
    packet = with_key(b"Idempotency-Key: k", b"Idempotency-Key: k") + b"{}"
    heads.learn(packet, exchange(b"{}", key, key), 1)
    assert heads.find(packet, 1) is None
    assert heads.find(with_key(b"Idempotency-Key: k") + b"{}", 1) is None
