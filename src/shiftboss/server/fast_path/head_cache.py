"""A cache of parsed request heads.

A client sends the same request line and headers again and again; at most the length of the body
and the idempotency key differ. Equal bytes have equal meaning, so they need not be parsed twice.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from shiftboss.rules.access.actors import Actor
from shiftboss.server.fast_path.exchange import FastExchange
from shiftboss.server.http.calls import Call

# An ordinary client has a few, one for each length. When there are more, the cache is emptied.
HEADS_MAX: Final = 2_000
HEAD_BYTES_MAX: Final = 2_000
HEADERS_MAX: Final = 30

_END: Final = b"\r\n\r\n"
# It differs in each request, so a head is remembered without it. Only a key that every parser reads
# in the same way: the others are parsed.
_KEY_HEADER: Final = b"idempotency-key"
_KEY_LINE: Final = re.compile(rb"\r\nidempotency-key: ([\w.-]{1,200})(?=\r\n|\Z)", re.IGNORECASE)


class CachedHead(NamedTuple):
    """The head of an ordinary request for a call, which the guard admitted when its tokens had
    this version."""

    call: Call
    headers: list[tuple[bytes, bytes]]
    actor: Actor
    body_bytes: int
    tokens_version: int


class HeadCache:
    def __init__(self) -> None:
        self._heads: dict[bytes, CachedHead] = {}
        # By the rest of the head, without the line of the key.
        self._heads_with_key: dict[bytes, CachedHead] = {}

    def find(self, packet: bytes, tokens_version: int) -> tuple[CachedHead, bytes] | None:
        """The head and the body, if the packet is exactly one request with a known head. After a
        change of the tokens no head is known: that of this one may have been revoked."""
        head, end, body = packet.partition(_END)
        cached = self._cached(head) if end else None
        if (
            cached is None
            or cached.body_bytes != len(body)
            or cached.tokens_version != tokens_version
        ):
            return None
        return cached, body

    def _cached(self, head: bytes) -> CachedHead | None:
        cached = self._heads.get(head)
        if cached is not None or not self._heads_with_key:
            return cached
        key_line = _KEY_LINE.search(head)
        if key_line is None:
            return None
        cached = self._heads_with_key.get(_without(key_line, head))
        if cached is None:
            return None
        return cached._replace(headers=[*cached.headers, (_KEY_HEADER, key_line[1])])

    def learn(self, packet: bytes, exchange: FastExchange, tokens_version: int) -> None:
        """Remember the head of a packet that began with the request of this exchange."""
        head, end, body = packet.partition(_END)
        if not end or body != exchange.body:
            return
        if len(head) > HEAD_BYTES_MAX or len(exchange.headers) > HEADERS_MAX:
            return
        others = [header for header in exchange.headers if header[0] != _KEY_HEADER]
        learned = CachedHead(exchange.call, others, exchange.actor, len(body), tokens_version)
        if len(others) == len(exchange.headers):
            _put(self._heads, head, learned)
            return
        key_line = _KEY_LINE.search(head)
        if key_line is not None and len(others) == len(exchange.headers) - 1:
            _put(self._heads_with_key, _without(key_line, head), learned)


def _without(line: re.Match[bytes], head: bytes) -> bytes:
    return head[: line.start()] + head[line.end() :]


def _put(heads: dict[bytes, CachedHead], head: bytes, learned: CachedHead) -> None:
    if len(heads) >= HEADS_MAX:
        heads.clear()
    heads[head] = learned
