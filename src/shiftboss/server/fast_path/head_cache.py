"""Heads of requests that were read before.

A client says the same again and again: request line and headers differ in the length of the body at
most. The same bytes mean the same, so they need not be taken apart twice.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from shiftboss.server.fast_path.exchange import FastExchange
from shiftboss.server.http.calls import Call

# Of an ordinary client there are a few, one for each length. Beyond it all are forgotten.
HEADS_MAX: Final = 2_000
HEAD_BYTES_MAX: Final = 2_000
HEADERS_MAX: Final = 30

_END: Final = b"\r\n\r\n"
# Of each report another: such a head does not come again.
_ONCE_ONLY: Final = b"idempotency-key"


class CachedHead(NamedTuple):
    """Of an ordinary request for a call."""

    call: Call
    path: str
    headers: list[tuple[bytes, bytes]]
    body_bytes: int


class HeadCache:
    def __init__(self) -> None:
        self._heads: dict[bytes, CachedHead] = {}

    def find(self, packet: bytes) -> tuple[CachedHead, bytes] | None:
        """The head of a packet that is one request and nothing else, and its body."""
        head, _, body = packet.partition(_END)
        known = self._heads.get(head)
        return (known, body) if known is not None and known.body_bytes == len(body) else None

    def learn(self, packet: bytes, exchange: FastExchange) -> None:
        """From a packet that began with the request of this exchange, and may hold more."""
        head, _, body = packet.partition(_END)
        if not exchange.is_admitted or body != exchange.body:
            return
        if len(head) > HEAD_BYTES_MAX or len(exchange.headers) > HEADERS_MAX:
            return
        if any(name == _ONCE_ONLY for name, _ in exchange.headers):
            return
        if len(self._heads) >= HEADS_MAX:
            self._heads.clear()
        self._heads[head] = CachedHead(exchange.call, exchange.path, exchange.headers, len(body))
