"""Head and body of an answer leave in one write.

uvicorn writes them one after the other, and each write is a system call and a packet.
"""

from __future__ import annotations

import asyncio
from typing import Any


class OneWriteTransport:
    """A transport that gathers what is written in one turn of the loop."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._gathered: list[bytes] = []
        self.is_closing = transport.is_closing

    def write(self, data: bytes) -> None:
        if not self._gathered:
            self._loop.call_soon(self._flush)
        self._gathered.append(data)

    def write_at_once(self, data: bytes) -> None:
        """For what is complete; behind what was gathered before."""
        self._flush()
        self._transport.write(data)

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        if self._gathered:
            gathered, self._gathered = self._gathered, []
            # Where the client has hung up, nobody is there to read it.
            if not self.is_closing():
                self._transport.write(b"".join(gathered))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)
