"""A connection that answers ordinary calls itself, without ASGI.

An ordinary request for a call is answered once its body is complete. Any other request (chunked,
large, pipelined, the last of its connection, with escapes in its path) goes through uvicorn to the
application and gets the same reply.
"""

from __future__ import annotations

import asyncio
import os
import re
import threading
from collections.abc import Awaitable, Coroutine
from functools import partial
from types import CoroutineType
from typing import Any, ClassVar, Final

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from shiftboss.errors import ShiftbossError
from shiftboss.protocol.fields import Answer
from shiftboss.rules.access.actors import Actor
from shiftboss.server.fast_path.exchange import (
    EARLY_PATHS,
    TASKLESS_PATHS,
    URGENT_PATH,
    FastExchange,
    continued,
)
from shiftboss.server.fast_path.head_cache import HeadCache
from shiftboss.server.fast_path.transport import CoalescingTransport
from shiftboss.server.http.access_log import (
    REFUSALS,
    REQUEST_ID_HEADER,
    AccessLog,
    RequestFacts,
    request_id_of,
)
from shiftboss.server.http.calls import Calls
from shiftboss.server.http.connection import HEADERS_MAX, Connection, too_many_headers
from shiftboss.server.http.forwarded import Forwarding
from shiftboss.server.http.guard import Guard
from shiftboss.server.http.rate_limits import ClientRate, RateLimits
from shiftboss.server.http.replies import Reply
from shiftboss.server.metrics.request_metrics import RequestCounts
from shiftboss.store.current_actor import CURRENT_ACTOR
from shiftboss.store.group_writer import EarlyFuture

# A Content-Length with more digits may be that of a body that is too large.
_LENGTH_DIGITS_MAX: Final = 5
_PLAIN_PATH: Final = re.compile(r"[\w/.-]+", re.ASCII)
_UNUSUAL_HEADERS: Final = frozenset(
    {b"transfer-encoding", b"expect", b"upgrade", REQUEST_ID_HEADER}
)

# Held while the writer thread writes to a socket. If the event loop closed that connection
# in the meantime, the descriptor could already belong to another one.
_EARLY_REPLY_LOCK: Final = threading.Lock()


class FastConnection(Connection):
    transport: CoalescingTransport  # type: ignore[assignment]
    cycle: Any
    _default_lines: ClassVar[tuple[list[tuple[bytes, bytes]] | None, bytes]] = (None, b"")

    def __init__(
        self,
        calls: Calls,
        guard: Guard,
        rates: RateLimits,
        forwarding: Forwarding,
        heads: HeadCache,
        access_log: AccessLog,
        request_counts: RequestCounts,
        **arguments: Any,
    ) -> None:
        super().__init__(**arguments)
        self._access_log = access_log
        self._request_counts = request_counts
        self._forwarding = forwarding
        self._is_proxy = False
        self._calls = calls
        self._guard = guard
        self._tokens = guard.tokens
        self._rates = rates
        self._rate: ClientRate | None = None
        self._heads = heads
        self._exchange: FastExchange | None = None
        self._descriptor: int | None = None
        self._is_ordinary = True
        self._first_of_packet: FastExchange | None = None

    # -- from the transport

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(CoalescingTransport(transport, self.loop))  # type: ignore[arg-type]
        # What is written past a transport of TLS would not be encrypted.
        if transport.get_extra_info("sslcontext") is None:
            self._descriptor = transport.get_extra_info("socket").fileno()
        self._rate = self._rates.of(self.client[0]) if self.client else None
        self._is_proxy = self.client is not None and self._forwarding.is_proxy(self.client[0])

    def connection_lost(self, exc: Exception | None) -> None:
        with _EARLY_REPLY_LOCK:
            self._descriptor = None
        super().connection_lost(exc)
        exchange = self._exchange
        if exchange is not None:
            exchange.disconnected = True
            if exchange.call.waits and exchange.answer is not None:
                exchange.answer.cancel()

    def data_received(self, data: bytes) -> None:
        if self._exchange is not None:
            self._finish_early_reply(self._exchange)
        is_first = self._is_between_requests
        may_know = is_first and self._is_free and not self._is_proxy
        known = self._heads.find(data, self._tokens.version) if may_know else None
        if known is not None and self._is_current(known[0].actor) and self._is_within_rate():
            head, body = known
            self._requests += 1
            self._unset_keepalive_if_required()
            self.cycle = self._exchange = exchange = FastExchange(
                head.call, head.headers, head.actor
            )
            exchange.body = body
            self._begin_call(exchange)
            return
        super().data_received(data)
        first, self._first_of_packet = self._first_of_packet, None
        if is_first and first is not None and not self._is_proxy:
            self._heads.learn(data, first, self._tokens.version)

    # -- from the parser

    def on_message_begin(self) -> None:
        # uvicorn's own method is called only when the request is left to uvicorn.
        self._begin_head()
        self.url = b""
        self.headers = []
        self.expect_100_continue = False
        self._is_ordinary = True

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        if name in _UNUSUAL_HEADERS:
            self._is_ordinary = False
            self.expect_100_continue |= name == b"expect" and value.lower() == b"100-continue"
        elif name == b"content-length" and len(value) > _LENGTH_DIGITS_MAX:
            self._is_ordinary = False
        if len(self.headers) >= HEADERS_MAX:
            self._stop_parsing(too_many_headers())
        self.headers.append((name, value))

    def on_body(self, body: bytes) -> None:
        exchange = self._exchange
        if exchange is not None and self.cycle is exchange:
            exchange.body += body
        else:
            super().on_body(body)

    def on_message_complete(self) -> None:
        self._is_between_requests = True
        exchange = self._exchange
        if exchange is None or self.cycle is not exchange:
            super().on_message_complete()
            return
        self._first_of_packet = self._first_of_packet or exchange
        self._begin_call(exchange)

    def _begin_request(self) -> None:
        exchange = self._new_exchange()
        if exchange is not None:
            self.cycle = self._exchange = exchange
            return
        url, headers, expects = self.url, self.headers, self.expect_100_continue
        HttpToolsProtocol.on_message_begin(self)
        self.url, self.expect_100_continue = url, expects
        self.headers += headers
        super()._begin_request()

    @property
    def _is_free(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _new_exchange(self) -> FastExchange | None:
        """None when the request is not an ordinary one for a call."""
        parser = self.parser
        stays_open = parser.get_http_version() == "1.1" and parser.should_keep_alive()
        if not (self._is_ordinary and self._is_free and stays_open):
            return None
        path = self.url.decode("latin-1")
        if not _PLAIN_PATH.fullmatch(path):
            return None
        method = parser.get_method().decode("latin-1")
        call = self._calls.find(method, path)
        # The application writes the audit log.
        if call is not None and call.is_audited:
            return None
        actor = None if call is None else self._admitted(method, path)
        if call is None or actor is None or not self._is_within_rate():
            return None
        return FastExchange(call, self.headers, actor)

    def _is_current(self, actor: Actor) -> bool:
        """Whether the token of a cached head has not expired since."""
        return actor.expires_at_ms is None or not self._tokens.is_expired(actor)

    def _is_within_rate(self) -> bool:
        if self._is_proxy and self.client is not None:
            # Each request may be of another client.
            client = self._forwarding.client(self.client[0], self.headers)
            return self._rates.of(client).admits()
        return self._rate is None or self._rate.admits()

    def _admitted(self, method: str, path: str) -> Actor | None:
        """The application refuses the others, before it reads their bodies."""
        try:
            return self._guard.check(method, path, self.headers)
        except ShiftbossError:
            return None

    # -- the call

    def _begin_call(self, exchange: FastExchange) -> None:
        """Callbacks and tasks that are created here keep the actor in their context."""
        call = exchange.call
        previous = CURRENT_ACTOR.set(exchange.actor)
        try:
            answer = call.begin(exchange.headers, exchange.body)
        except Exception as error:  # noqa: BLE001 (logged by the error's reply)
            self._send(exchange, call.error_reply(error))
        else:
            if isinstance(answer, asyncio.Future):
                self._wait_for(exchange, answer, None)
            elif call.path in TASKLESS_PATHS and isinstance(answer, CoroutineType):
                self._resume(exchange, answer)
            else:
                self._create_task(exchange, answer)
        finally:
            CURRENT_ACTOR.reset(previous)

    def _wait_for(
        self,
        exchange: FastExchange,
        future: asyncio.Future[Any],
        coroutine: Coroutine[Any, Any, Answer] | None,
    ) -> None:
        """Wait without a task for the answer itself, or for what a coroutine waits for."""
        if isinstance(future, EarlyFuture) and exchange.call.path in EARLY_PATHS:
            future.on_commit = partial(self._send_early, exchange)
        exchange.answer = future
        # uvicorn lets these finish before the server ends.
        self.tasks.add(future)  # type: ignore[arg-type]
        future.add_done_callback(partial(self._on_done, exchange, coroutine))

    def _on_done(
        self,
        exchange: FastExchange,
        coroutine: Coroutine[Any, Any, Answer] | None,
        future: asyncio.Future[Any],
    ) -> None:
        self.tasks.discard(future)
        if coroutine is not None:
            self._resume(exchange, coroutine)
        elif not future.cancelled():
            error = future.exception()
            if error is None:
                self._send_answer(exchange, future.result())
            else:
                self._send(exchange, exchange.call.error_reply(error))

    def _resume(self, exchange: FastExchange, coroutine: Coroutine[Any, Any, Answer]) -> None:
        """Run a coroutine up to its next `await`. If that is its second, a task does the rest."""
        try:
            awaited = coroutine.send(None)
        except StopIteration as stop:
            self._send_answer(exchange, stop.value)
        except asyncio.CancelledError:
            pass  # the client is gone
        except Exception as error:  # noqa: BLE001 (logged by the error's reply)
            self._send(exchange, exchange.call.error_reply(error))
        else:
            if exchange.disconnected:
                coroutine.close()
            elif exchange.answer is None and isinstance(awaited, asyncio.Future):
                self._wait_for(exchange, awaited, coroutine)
            else:
                self._create_task(exchange, continued(coroutine, awaited))

    def _create_task(self, exchange: FastExchange, answer: Awaitable[Answer]) -> None:
        exchange.answer = task = self.loop.create_task(self._finish_in_task(exchange, answer))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _finish_in_task(self, exchange: FastExchange, answer: Awaitable[Answer]) -> None:
        try:
            reply = exchange.call.reply(await answer)
        except Exception as error:  # noqa: BLE001 (logged by the error's reply)
            reply = exchange.call.error_reply(error)
        self._send(exchange, reply)

    # -- the reply

    def _send_early(self, exchange: FastExchange, answer: object) -> None:
        """Write to the socket past the transport, mostly from the writer thread. Whatever is
        unusual is left to the event loop."""
        if not isinstance(answer, Answer):
            return
        reply = self._to_bytes(exchange.call.reply(answer))
        with _EARLY_REPLY_LOCK:
            if self._descriptor is None or not exchange.keep_alive or self.transport.has_unsent:
                return
            try:
                written = os.write(self._descriptor, reply)
            except OSError:
                return  # the client does not read, or is gone
            exchange.unsent = reply[written:]

    def _finish_early_reply(self, exchange: FastExchange) -> None:
        with _EARLY_REPLY_LOCK:
            has_begun = exchange.unsent is not None
        if has_begun and not exchange.response_complete:
            self._finish(exchange)

    def _send_answer(self, exchange: FastExchange, answer: Answer) -> None:
        if exchange.call.path == URGENT_PATH:
            self._send_early(exchange, answer)
        if exchange.unsent is not None:
            self._finish_early_reply(exchange)
        elif not exchange.disconnected:
            self._send(exchange, exchange.call.reply(answer))

    def _send(self, exchange: FastExchange, reply: Reply) -> None:
        if self.flow.write_paused and not exchange.disconnected:
            # The client sends without reading; its next request waits for this reply.
            asyncio.ensure_future(self.flow.drain()).add_done_callback(
                lambda _drained: self._send(exchange, reply)
            )
            return
        exchange.unsent = self._to_bytes(reply, keep_alive=exchange.keep_alive)
        exchange.status, exchange.code = reply.status, reply.code
        self._finish(exchange)

    def _log(self, exchange: FastExchange) -> None:
        client = self.client[0] if self.client else "-"
        if self._is_proxy:
            client = self._forwarding.client(client, exchange.headers)
        facts = RequestFacts("POST", exchange.call.path, client, request_id_of(None))
        facts.began_at, facts.body, facts.code = exchange.began_at, exchange.body, exchange.code
        self._access_log.record(facts, exchange.actor, exchange.status)

    def _finish(self, exchange: FastExchange) -> None:
        self._exchange = None
        if exchange.disconnected:
            return
        exchange.response_complete = True
        self._request_counts.count(exchange.call.route, exchange.status)
        if self._access_log.is_on() or exchange.status in REFUSALS:
            self._log(exchange)
        if exchange.unsent:
            self.transport.write_now(exchange.unsent)
        if not exchange.keep_alive:
            self.transport.close()
        self.on_response_complete()

    def _to_bytes(self, reply: Reply, *, keep_alive: bool = True) -> bytes:
        """The same bytes that uvicorn writes for the same response."""
        return b"%b%bcontent-type: %b\r\ncontent-length: %d\r\n%b%b\r\n%b" % (
            STATUS_LINE[reply.status],
            self._default_header_lines(),
            reply.content_type,
            len(reply.body),
            b"".join([b"%b: %b\r\n" % line for line in reply.headers]) if reply.headers else b"",
            b"" if keep_alive else b"connection: close\r\n",
            reply.body,
        )

    def _default_header_lines(self) -> bytes:
        """The date, mostly. uvicorn makes a new list every second."""
        headers = self.server_state.default_headers
        cached_headers, lines = FastConnection._default_lines
        if headers is not cached_headers:
            lines = b"".join([b"%b: %b\r\n" % header for header in headers])
            FastConnection._default_lines = (headers, lines)
        return lines
