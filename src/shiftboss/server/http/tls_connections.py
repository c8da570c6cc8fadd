"""Connections of a server that speaks TLS: the handshake, and then the connection itself.

The event loop could do the handshake before we see the connection. Then connections that never
finish it would be counted and timed by nobody, and plain HTTP would get no answer.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final, cast

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from shiftboss.errors import ShiftbossError, TlsRequired
from shiftboss.server.http.certificates import Certificates
from shiftboss.server.http.open_connections import OpenConnections, Phase
from shiftboss.server.http.replies import problem_reply

log = logging.getLogger(__name__)

ConnectionFactory = Callable[..., asyncio.Protocol]

# Every handshake begins with a record of this type.
_TLS_RECORD: Final = b"\x16"


def behind_tls(
    create: ConnectionFactory, certificates: Certificates, open_connections: OpenConnections
) -> ConnectionFactory:
    """Connections as `create` makes them, with TLS before them."""

    def create_handshake(**arguments: Any) -> asyncio.Protocol:
        return Handshake(lambda: create(**arguments), certificates, open_connections, arguments)

    return create_handshake


class Handshake(asyncio.Protocol):
    """A connection until its handshake is done. It counts as one without a request."""

    phase = Phase.NEW
    progress = 0

    def __init__(
        self,
        create: Callable[[], asyncio.Protocol],
        certificates: Certificates,
        open_connections: OpenConnections,
        arguments: dict[str, Any],
    ) -> None:
        self._create = create
        self._certificates = certificates
        self._open_connections = open_connections
        # What uvicorn asks to end when the server stops.
        self._connections: set[Any] = arguments["server_state"].connections
        self._transport: asyncio.Transport | None = None
        self._task: asyncio.Task[None] | None = None
        self._client: object = None
        self._early = b""
        self._is_lost = False

    # -- from the transports: first the plain one, then the one of TLS

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._transport = transport
        self._client = transport.get_extra_info("peername")
        if not self._open_connections.admit(self):
            transport.abort()  # what could be said cannot be encrypted yet
            return
        self._connections.add(self)

    def data_received(self, data: bytes) -> None:
        if self._task is not None:
            self._early += data  # a request that came with the last bytes of the handshake
        elif data.startswith(_TLS_RECORD):
            self._begin(data)
        else:
            self._refuse_plain(data)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._is_lost = True
        self._leave()

    # -- for OpenConnections and uvicorn

    def refuse(self, error: ShiftbossError) -> None:  # noqa: ARG002
        self.abort()

    def close(self) -> None:
        self.abort()

    def shutdown(self) -> None:
        self.abort()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # -- the handshake

    def _begin(self, data: bytes) -> None:
        """uvloop has read the first bytes before anything can be put in front of the transport, so
        they are given to TLS once it is there: `start_tls` schedules its `connection_made` in its
        first step, and callbacks run in the order in which they were scheduled."""
        assert self._transport is not None
        self._transport.pause_reading()
        loop = asyncio.get_running_loop()
        self._task = loop.create_task(self._shake_hands(self._transport))
        self._task.add_done_callback(self._on_end)
        loop.call_soon(loop.call_soon, _feed, self._transport, self, data)

    async def _shake_hands(self, transport: asyncio.Transport) -> None:
        if transport.is_closing():
            return
        secured = await asyncio.get_running_loop().start_tls(
            transport,
            self,
            self._certificates.context,
            server_side=True,
            ssl_handshake_timeout=self._open_connections.limits.head_seconds,
        )
        if secured is not None and not self._is_lost:
            self._hand_over(secured)

    def _refuse_plain(self, data: bytes) -> None:
        assert self._transport is not None
        log.info("no TLS from %s", self._client)
        if data[:1].isalpha():
            self._transport.write(_TLS_REQUIRED)
            self._transport.close()
        else:
            self._transport.abort()

    def _on_end(self, task: asyncio.Task[None]) -> None:
        """A handshake that failed leaves nothing behind."""
        error = None if task.cancelled() else task.exception()
        if isinstance(error, OSError):  # of TLS, of the connection, or late
            log.info("no TLS connection with %s: %r", self._client, error)
        elif error is not None:
            log.error("a TLS connection with %s has failed", self._client, exc_info=error)
        if task.cancelled() or error is not None:
            self._leave()
            self.abort()

    def _hand_over(self, secured: asyncio.Transport) -> None:
        self._leave()
        if secured.is_closing():
            return
        connection = self._create()
        secured.set_protocol(connection)
        connection.connection_made(secured)
        if self._early:
            connection.data_received(self._early)
            self._early = b""

    def _leave(self) -> None:
        self._open_connections.remove(self)
        self._connections.discard(self)


def _feed(transport: asyncio.Transport, handshake: Handshake, data: bytes) -> None:
    if transport.get_protocol() is handshake:
        return  # TLS did not even begin
    protocol = cast(asyncio.BufferedProtocol, transport.get_protocol())
    rest = memoryview(data)
    while rest and not transport.is_closing():
        buffer = memoryview(protocol.get_buffer(len(rest)))
        size = min(len(buffer), len(rest))
        buffer[:size] = rest[:size]
        protocol.buffer_updated(size)
        rest = rest[size:]


def _tls_required() -> bytes:
    error = TlsRequired("this port speaks TLS", hint="use https:// in the address of the server")
    reply = problem_reply(error)
    head = STATUS_LINE[reply.status] + b"content-type: %b\r\ncontent-length: %d\r\n" % (
        reply.content_type,
        len(reply.body),
    )
    return head + b"connection: close\r\n\r\n" + reply.body


_TLS_REQUIRED: Final = _tls_required()
