"""The HTTP connection: head and body of an answer leave in one write.

uvicorn writes them one after the other, and each write is a system call and a packet.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

# From one set of headers to the next: a body and the headers behind it. An honest request is far
# below; a body that is a little too large still gets its own answer.
REQUEST_BYTES_MAX = 4 * 1024 * 1024


class OneWriteTransport:
    """A transport that gathers what is written in one turn of the loop."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._gathered: list[bytes] = []

    def write(self, data: bytes) -> None:
        if not self._gathered:
            self._loop.call_soon(self._flush)
        self._gathered.append(data)

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        if self._gathered:
            gathered, self._gathered = self._gathered, []
            self._transport.write(b"".join(gathered))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class Connection(HttpToolsProtocol):
    """Refuses endless requests: nothing else bounds what a client can make the server hold."""

    _bytes_left = REQUEST_BYTES_MAX

    def data_received(self, data: bytes) -> None:
        self._bytes_left -= len(data)
        if self._bytes_left < 0:
            self.send_400_response("The request is too large.")
            return
        super().data_received(data)

    def on_headers_complete(self) -> None:
        self._bytes_left = REQUEST_BYTES_MAX
        super().on_headers_complete()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(OneWriteTransport(transport, self.loop))  # type: ignore[arg-type]
