"""uvicorn's HTTP connection, with limits on what a client can make the server hold."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sized
from typing import Any, Final, NamedTuple

from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

# From the end of one request's headers to the end of the next one's. Legitimate requests are far
# smaller, and a body that is a little too large still gets a reply that says so.
REQUEST_BYTES_MAX: Final = 4 * 1024 * 1024


class Connection(HttpToolsProtocol):
    def __init__(self, **uvicorn_arguments: Any) -> None:
        super().__init__(**uvicorn_arguments)
        self._bytes_left = REQUEST_BYTES_MAX

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.flow = PipelineFlowControl(transport, self.pipeline)

    def data_received(self, data: bytes) -> None:
        self._bytes_left -= len(data)
        if self._bytes_left < 0:
            self.send_400_response("The request is too large.")
            return
        super().data_received(data)

    def on_headers_complete(self) -> None:
        self._bytes_left = REQUEST_BYTES_MAX
        # The previous request, in the same packet, may have been answered just now.
        self._unset_keepalive_if_required()
        if self._is_upgrade_with_body():
            self.send_400_response("No other protocol is supported: leave out Upgrade.")
            return
        self._begin_request()

    def _begin_request(self) -> None:
        super().on_headers_complete()

    def _is_upgrade_with_body(self) -> bool:
        """The parser leaves such a body to the other protocol, and would read requests in it."""
        names = {name for name, _ in self.headers}
        has_body = b"content-length" in names or b"transfer-encoding" in names
        return self.parser.should_upgrade() and has_body


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

    connection: Callable[..., asyncio.Protocol] = Connection
    background: Callable[[], Coroutine[None, None, None]] | None = None
