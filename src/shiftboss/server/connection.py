"""The HTTP connection: uvicorn's, with a short way for calls.

Through ASGI a request costs the event loop twice what it costs to answer a call, so an ordinary
request for a call does not go that way: it is answered from here once its body is complete. What
is out of the ordinary (chunked, large, pipelined, a last request, a path with escapes) is left to
uvicorn and gets the same answer from the application.
"""

from __future__ import annotations

import asyncio
import os
import re
import threading
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, ClassVar, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from shiftboss.coordinator.answer_or_more import AnswerOrMore
from shiftboss.errors import ShiftbossError
from shiftboss.protocol.fields import Answer
from shiftboss.server.calls import Calls
from shiftboss.server.guard import Guard
from shiftboss.server.known_heads import KnownHead, KnownHeads
from shiftboss.server.short_exchange import Reply, ShortExchange, problem_reply
from shiftboss.server.transport import OneAfterTheOther, OneWriteTransport
from shiftboss.store.prompt import Prompt

# From one set of headers to the next: a body and the headers behind it. An honest request is far
# below; a body that is a little too large still gets its own answer.
REQUEST_BYTES_MAX: Final = 4 * 1024 * 1024

# Longer than this is the length of a body that may be too large.
_LENGTH_DIGITS_MAX: Final = 5
_PLAIN_PATH: Final = re.compile(r"[\w/.-]+", re.ASCII)
_OUT_OF_THE_ORDINARY: Final = frozenset({b"transfer-encoding", b"expect", b"upgrade"})
# Held by the thread that writes while it uses a connection, which may not be closed meanwhile: its
# descriptor would be another's.
_USED_ELSEWHERE: Final = threading.Lock()


class Connection(HttpToolsProtocol):
    """Refuses endless requests: nothing else bounds what a client can make the server hold."""

    transport: OneWriteTransport  # type: ignore[assignment]
    cycle: Any
    _lines_last: ClassVar[tuple[list[tuple[bytes, bytes]] | None, bytes]] = (None, b"")

    def __init__(self, calls: Calls, guard: Guard, heads: KnownHeads, **of_uvicorn: Any) -> None:
        super().__init__(**of_uvicorn)
        self._calls = calls
        self._guard = guard
        self._heads = heads
        # Between two requests: whatever comes next begins with the head of one.
        self._is_at_rest = True
        self._first_of_packet: ShortExchange | None = None
        self._bytes_left = REQUEST_BYTES_MAX
        self._is_ordinary = True
        self._short: ShortExchange | None = None
        self._descriptor: int | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(OneWriteTransport(transport, self.loop))  # type: ignore[arg-type]
        self._descriptor = transport.get_extra_info("socket").fileno()
        self.flow = OneAfterTheOther(self.transport, self.pipeline)  # type: ignore[arg-type]

    def connection_lost(self, exc: Exception | None) -> None:
        with _USED_ELSEWHERE:
            self._descriptor = None
        super().connection_lost(exc)
        short = self._short
        if short is not None:
            short.disconnected = True
            if short.call.waits and short.answer is not None:
                short.answer.cancel()

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

    def _begin_known(self, head: KnownHead, body: bytes) -> None:
        self._bytes_left = REQUEST_BYTES_MAX
        self._unset_keepalive_if_required()
        self.cycle = self._short = short = ShortExchange(head.call, head.path, head.headers)
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

    def _on_short_way(self) -> ShortExchange | None:
        parser = self.parser
        stays_open = parser.get_http_version() == "1.1" and parser.should_keep_alive()
        if not (self._is_ordinary and self._is_free and stays_open):
            return None
        path = self.url.decode("latin-1")
        if not _PLAIN_PATH.fullmatch(path):
            return None
        call = self._calls.find(parser.get_method().decode("latin-1"), path)
        return None if call is None else ShortExchange(call, path, self.headers)

    def _leave_to_uvicorn(self) -> None:
        url, headers, expects = self.url, self.headers, self.expect_100_continue
        super().on_message_begin()
        self.url, self.expect_100_continue = url, expects
        self.headers += headers
        super().on_headers_complete()

    def _begin(self, short: ShortExchange) -> None:
        try:
            self._guard.check(short.path, short.headers)
        except ShiftbossError as error:
            self._send(short, problem_reply(error))
            return
        try:
            answer = short.call.begin(short.headers, short.body)
        except Exception as error:  # noqa: BLE001 (whatever it is, the client is told)
            self._send(short, short.problem(error))
            return
        stored = answer.stored if isinstance(answer, AnswerOrMore) else answer
        if not isinstance(stored, Prompt):
            self._wait(short, answer)
            return
        # A single change in the store, which needs no task.
        if short.call.prompt:
            stored.at_once = partial(self._send_at_once, short)
        more = answer.more if isinstance(answer, AnswerOrMore) else None
        stored.add_done_callback(partial(self._on_stored, short, more))
        self._remember(short, stored)

    def _remember(self, short: ShortExchange, answer: asyncio.Future[Any]) -> None:
        """uvicorn lets them finish before the server ends."""
        short.answer = answer
        self.tasks.add(answer)  # type: ignore[arg-type]

    def _on_stored(
        self,
        short: ShortExchange,
        more: Callable[[Any], Awaitable[Answer]] | None,
        stored: asyncio.Future[Any],
    ) -> None:
        self.tasks.discard(stored)
        if stored.cancelled():
            return  # nobody is there to hear it
        error = stored.exception()
        if error is not None:
            self._send(short, short.problem(error))
        elif more is not None and not isinstance(stored.result(), Answer):
            self._wait(short, more(stored.result()))
        elif short.left is None:
            self._send(short, short.reply(stored.result()))
        else:
            self._end_what_was_sent(short)

    def _send_at_once(self, short: ShortExchange, answer: object) -> None:
        """On the thread that writes: the loop would have to wake up first. What is not as usual is
        left to it."""
        if not isinstance(answer, Answer):
            return
        reply = short.reply(answer).to_bytes(self._usual_lines())
        with _USED_ELSEWHERE:
            if self._descriptor is None or not short.keep_alive or self.transport.has_more:
                return
            try:
                written = os.write(self._descriptor, reply)
            except OSError:
                return  # the client reads nothing, or has hung up
            short.left = reply[written:]

    def _end_what_was_sent(self, short: ShortExchange) -> None:
        with _USED_ELSEWHERE:
            was_sent = short.left is not None
        if was_sent and not short.response_complete:
            self._end(short)

    def _wait(self, short: ShortExchange, answer: Awaitable[Answer]) -> None:
        self._remember(short, self.loop.create_task(self._wait_for(short, answer)))

    async def _wait_for(self, short: ShortExchange, answer: Awaitable[Answer]) -> None:
        try:
            reply = short.reply(await answer)
        except Exception as error:  # noqa: BLE001 (whatever it is, the client is told)
            reply = short.problem(error)
        finally:
            self.tasks.discard(short.answer)
        self._send(short, reply)

    def _send(self, short: ShortExchange, reply: Reply) -> None:
        if self.flow.write_paused and not short.disconnected:
            # A client that sends and does not read; its next request waits behind this one.
            asyncio.ensure_future(self.flow.drain()).add_done_callback(
                lambda _drained: self._send(short, reply)
            )
            return
        last = b"" if short.keep_alive else b"connection: close\r\n"
        short.left = reply.to_bytes(self._usual_lines() + last)
        self._end(short)

    def _end(self, short: ShortExchange) -> None:
        self._short = None
        if short.disconnected:
            return
        short.response_complete = True
        if short.left:
            self.transport.write_at_once(short.left)
        if not short.keep_alive:
            self.transport.close()
        self.on_response_complete()

    def _usual_lines(self) -> bytes:
        """Of every answer; uvicorn makes a new list when the second changes."""
        headers = self.server_state.default_headers
        headers_last, lines = Connection._lines_last
        if headers is not headers_last:
            lines = b"".join([b"%b: %b\r\n" % header for header in headers])
            Connection._lines_last = (headers, lines)
        return lines
