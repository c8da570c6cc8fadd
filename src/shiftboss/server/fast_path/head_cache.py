"""A cache of parsed request heads.

A client sends the same request line and headers again and again; at most the length of the body
differs. Equal bytes have equal meaning, so they need not be parsed twice.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from shiftboss.rules.access.actors import Actor
from shiftboss.server.fast_path.exchange import FastExchange
from shiftboss.server.http.calls import Call

# An ordinary client has a few, one for each length. When there are more, the cache is emptied.
HEADS_MAX: Final = 2_000
HEAD_BYTES_MAX: Final = 2_000
HEADERS_MAX: Final = 30

_END: Final = b"\r\n\r\n"
# Differs in each request, so such a head would never be found again.
_UNIQUE_HEADER: Final = b"idempotency-key"


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

    def find(self, packet: bytes, tokens_version: int) -> tuple[CachedHead, bytes] | None:
        """The head and the body, if the packet is exactly one request with a known head. After a
        change of the tokens no head is known: that of this one may have been revoked."""
        head, end, body = packet.partition(_END)
        cached = self._heads.get(head) if end else None
        if (
            cached is None
            or cached.body_bytes != len(body)
            or cached.tokens_version != tokens_version
        ):
            return None
        return cached, body

    def learn(self, packet: bytes, exchange: FastExchange, tokens_version: int) -> None:
        """Remember the head of a packet that began with the request of this exchange."""
        head, end, body = packet.partition(_END)
        if not end or body != exchange.body:
            return
        if len(head) > HEAD_BYTES_MAX or len(exchange.headers) > HEADERS_MAX:
            return
        if any(name == _UNIQUE_HEADER for name, _ in exchange.headers):
            return
        if len(self._heads) >= HEADS_MAX:
            self._heads.clear()
        self._heads[head] = CachedHead(
            exchange.call, exchange.headers, exchange.actor, len(body), tokens_version
        )
