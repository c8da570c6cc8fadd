"""uvicorn's HTTP connection, with limits on what a client can make the server hold."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine, Sized
from typing import Any, Final, NamedTuple

import httptools
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from shiftboss.errors import HeadTooLarge, MalformedRequest, ShiftbossError, TooManyConnections
from shiftboss.server.http.open_connections import OpenConnections, Phase
from shiftboss.server.http.replies import Reply, problem_reply, public_error

# From the end of one request's headers to the end of the next one's. Legitimate requests are far
# smaller, and a body that is a little too large still gets a reply that says so.
REQUEST_BYTES_MAX: Final = 4 * 1024 * 1024
# As much as uvicorn's other parser accepts. A packet may bring more before it is counted.
HEAD_BYTES_MAX: Final = 64 * 1024
HEADERS_MAX: Final = 100


class Connection(HttpToolsProtocol):
    def __init__(self, open_connections: OpenConnections, **uvicorn_arguments: Any) -> None:
        super().__init__(**uvicorn_arguments)
        self._open_connections = open_connections
        self._bytes_left = REQUEST_BYTES_MAX
        # Whether the next byte begins a new request.
        self._is_between_requests = True
        self._is_in_head = False
        # What earlier packets, and what the current one, have brought of the head.
        self._head_bytes = 0
        self._packet_bytes = 0
        self._requests = 0
        self._refusal: ShiftbossError | None = None
        self._is_over = False

    # -- from the transport

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.flow = PipelineFlowControl(transport, self.pipeline)
        if not self._open_connections.admit(self):
            self.refuse(TooManyConnections("the server has too many open connections"))

    def connection_lost(self, exc: Exception | None) -> None:
        self._open_connections.remove(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_over:
            return
        self._bytes_left -= len(data)
        if self._bytes_left < 0:
            self.refuse(MalformedRequest("the request is too large"))
            return
        self._packet_bytes = len(data)
        request = self._requests if self._is_in_head else None
        super().data_received(data)
        if self._is_in_head and self._requests == request:
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_BYTES_MAX:
                self.refuse(_too_many_bytes())

    # -- from the parser

    def on_message_begin(self) -> None:
        self._begin_head()
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        if len(self.headers) >= HEADERS_MAX:
            self._stop_parsing(too_many_headers())
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if self._head_bytes + self._packet_bytes > HEAD_BYTES_MAX:
            self._check_head_bytes()
        self._bytes_left = REQUEST_BYTES_MAX
        self._is_in_head = False
        # The previous request, in the same packet, may have been answered just now.
        self._unset_keepalive_if_required()
        if self._is_upgrade_with_body():
            self._stop_parsing(
                MalformedRequest("no other protocol is supported", hint="leave out Upgrade")
            )
        self._begin_request()

    def on_message_complete(self) -> None:
        self._is_between_requests = True
        super().on_message_complete()

    def _begin_head(self) -> None:
        self._is_between_requests = False
        self._is_in_head = True
        self._head_bytes = 0
        self._requests += 1

    def _check_head_bytes(self) -> None:
        """The packet may have more in it than the head."""
        fields = sum(len(name) + len(value) + 4 for name, value in self.headers)
        if len(self.url) + fields > HEAD_BYTES_MAX:
            self._stop_parsing(_too_many_bytes())

    def _stop_parsing(self, refusal: ShiftbossError) -> None:
        """The parser turns an error in its callbacks into one of its own, and stops."""
        self._refusal = refusal
        raise refusal

    def _begin_request(self) -> None:
        super().on_headers_complete()

    def _is_upgrade_with_body(self) -> bool:
        """The parser leaves such a body to the other protocol, and would read requests in it."""
        names = {name for name, _ in self.headers}
        has_body = b"content-length" in names or b"transfer-encoding" in names
        return self.parser.should_upgrade() and has_body

    def on_response_complete(self) -> None:
        is_last = not self.pipeline
        super().on_response_complete()
        if self._is_over and is_last and self._refusal is not None:
            self._send_last(problem_reply(self._refusal))

    # -- refusals, before there is a request

    def send_400_response(self, msg: str) -> None:
        self.refuse(self._refusal or _own_failure(sys.exception()) or MalformedRequest(msg))

    def refuse(self, error: ShiftbossError) -> None:
        """Send the error, and nothing after it. Requests that came before it are answered first:
        their clients would take it for their reply."""
        self._is_over = True
        self._refusal = error
        if self._is_behind_others():
            self.flow.pause_reading()
        else:
            self._send_last(problem_reply(error))

    def _is_behind_others(self) -> bool:
        if self._is_between_requests or self._is_in_head:
            return self.cycle is not None and not self.cycle.response_complete
        if self.pipeline:
            self.pipeline.popleft()  # the request itself, which has no complete body
            return True
        return False

    def _send_last(self, reply: Reply) -> None:
        if self.transport.is_closing():
            return
        headers = [
            *self.server_state.default_headers,
            (b"content-type", reply.content_type),
            (b"content-length", b"%d" % len(reply.body)),
            *reply.headers,
            (b"connection", b"close"),
        ]
        lines = b"".join(b"%b: %b\r\n" % line for line in headers)
        self.transport.write(STATUS_LINE[reply.status] + lines + b"\r\n" + reply.body)
        self.transport.close()

    # -- for OpenConnections

    @property
    def phase(self) -> Phase:
        if self.transport.is_closing():
            return Phase.CLOSING
        if self.flow.write_paused:
            return Phase.STALLED
        is_free = self.cycle is None or self.cycle.response_complete
        if self._is_between_requests:
            if not is_free or self.pipeline:
                return Phase.BUSY
            return Phase.IDLE if self._requests else Phase.NEW
        if self.flow.read_paused:
            return Phase.BUSY  # the rest of the request waits for us
        return Phase.HEAD if self._is_in_head else Phase.BODY

    @property
    def progress(self) -> int:
        """The number of the request; for a reply that is not read, what is left of it."""
        if self.flow.write_paused:
            return self.transport.get_write_buffer_size()
        return self._requests

    def close(self) -> None:
        self.transport.close()

    def abort(self) -> None:
        self.transport.abort()


def _own_failure(error: BaseException | None) -> ShiftbossError | None:
    """Reading the request failed because of the server, such as for lack of memory. A client that
    is told that its request is malformed would not send it again."""
    if not isinstance(error, httptools.HttpParserCallbackError):
        return None
    cause = error.__context__
    # An address that cannot be parsed is found in a callback, too.
    if cause is None or isinstance(cause, httptools.HttpParserError):
        return None
    return public_error(cause, "reading a request")


def _too_many_bytes() -> HeadTooLarge:
    return HeadTooLarge(f"the headers have more than {HEAD_BYTES_MAX} bytes")


def too_many_headers() -> HeadTooLarge:
    return HeadTooLarge(f"the request has more than {HEADERS_MAX} headers")


class PipelineFlowControl(FlowControl):
    """Stops reading while a pipelined request waits for the one before it: a client that sends
    without reading would fill the memory."""

    def __init__(self, transport: asyncio.Transport, pipeline: Sized) -> None:
        super().__init__(transport)
        self._pipeline = pipeline

    def resume_reading(self) -> None:
        if not self._pipeline:
            super().resume_reading()


class Serving(NamedTuple):
    """How requests are served: what makes connections, and what runs beside them."""

    connection: Callable[..., asyncio.Protocol]
    background: tuple[Callable[[], Coroutine[None, None, None]], ...] = ()
