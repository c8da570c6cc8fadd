"""The HTTP connection: uvicorn's, with a short way for calls.

Through ASGI a request costs the event loop twice what it costs to answer a call, so an ordinary
request for a call does not go that way: it is answered from here once its body is complete. What
is out of the ordinary (chunked, large, pipelined, a last request, a path with escapes) is left to
uvicorn and gets the same answer from the application.
"""

from __future__ import annotations

import re
from typing import Any, Final

from shiftboss.server.fast_path.exchange import FastExchange
from shiftboss.server.fast_path.head_cache import CachedHead, HeadCache
from shiftboss.server.fast_path.reply import ReplyingConnection
from shiftboss.server.http.calls import Calls
from shiftboss.server.http.guard import Guard

# From one set of headers to the next: a body and the headers behind it. An honest request is far
# below; a body that is a little too large still gets its own answer.
REQUEST_BYTES_MAX: Final = 4 * 1024 * 1024

# Longer than this is the length of a body that may be too large.
_LENGTH_DIGITS_MAX: Final = 5
_PLAIN_PATH: Final = re.compile(r"[\w/.-]+", re.ASCII)
_OUT_OF_THE_ORDINARY: Final = frozenset({b"transfer-encoding", b"expect", b"upgrade"})


class Connection(ReplyingConnection):
    """Refuses endless requests: nothing else bounds what a client can make the server hold."""

    def __init__(self, calls: Calls, guard: Guard, heads: HeadCache, **of_uvicorn: Any) -> None:
        super().__init__(guard, **of_uvicorn)
        self._calls = calls
        self._heads = heads
        # Between two requests: whatever comes next begins with the head of one.
        self._is_at_rest = True
        self._first_of_packet: FastExchange | None = None
        self._bytes_left = REQUEST_BYTES_MAX
        self._is_ordinary = True

    def data_received(self, data: bytes) -> None:
        self._bytes_left -= len(data)
        if self._bytes_left < 0:
            self.send_400_response("The request is too large.")
            return
        if self._short is not None:
            self._end_what_was_sent(self._short)
        is_at_rest = self._is_at_rest
        known = self._heads.find(data) if is_at_rest and self._is_free else None
        if known is not None:
            self._begin_known(*known)
            return
        super().data_received(data)
        first, self._first_of_packet = self._first_of_packet, None
        if is_at_rest and first is not None:
            self._heads.learn(data, first)

    def _begin_known(self, head: CachedHead, body: bytes) -> None:
        self._bytes_left = REQUEST_BYTES_MAX
        self._unset_keepalive_if_required()
        self.cycle = self._short = short = FastExchange(head.call, head.path, head.headers)
        short.body = body
        self._begin(short)

    def on_message_begin(self) -> None:
        self.url = b""
        self.headers = []
        self.expect_100_continue = False
        self._is_ordinary = True
        self._is_at_rest = False

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        if name in _OUT_OF_THE_ORDINARY:
            self._is_ordinary = False
            self.expect_100_continue |= name == b"expect" and value.lower() == b"100-continue"
        elif name == b"content-length" and len(value) > _LENGTH_DIGITS_MAX:
            self._is_ordinary = False
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        self._bytes_left = REQUEST_BYTES_MAX
        # The request before this one, in the same packet, may have been answered just now.
        self._unset_keepalive_if_required()
        if self._is_upgrade_with_body():
            self.send_400_response("No other protocol is spoken here: leave out Upgrade.")
            return
        short = self._on_short_way()
        if short is None:
            self._leave_to_uvicorn()
        else:
            self.cycle = self._short = short

    def on_body(self, body: bytes) -> None:
        short = self._short
        if short is not None and self.cycle is short:
            short.body += body
        else:
            super().on_body(body)

    def on_message_complete(self) -> None:
        self._is_at_rest = True
        short = self._short
        if short is None or self.cycle is not short:
            super().on_message_complete()
            return
        self._first_of_packet = self._first_of_packet or short
        self._begin(short)

    @property
    def _is_free(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _is_upgrade_with_body(self) -> bool:
        """The parser leaves the body to the other protocol, and would then read on in it."""
        names = {name for name, _ in self.headers}
        has_body = b"content-length" in names or b"transfer-encoding" in names
        return self.parser.should_upgrade() and has_body

    def _on_short_way(self) -> FastExchange | None:
        parser = self.parser
        stays_open = parser.get_http_version() == "1.1" and parser.should_keep_alive()
        if not (self._is_ordinary and self._is_free and stays_open):
            return None
        path = self.url.decode("latin-1")
        if not _PLAIN_PATH.fullmatch(path):
            return None
        call = self._calls.find(parser.get_method().decode("latin-1"), path)
        return None if call is None else FastExchange(call, path, self.headers)

    def _leave_to_uvicorn(self) -> None:
        url, headers, expects = self.url, self.headers, self.expect_100_continue
        super().on_message_begin()
        self.url, self.expect_100_continue = url, expects
        self.headers += headers
        super().on_headers_complete()
