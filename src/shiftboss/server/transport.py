"""How a connection writes and reads, where uvicorn does it otherwise."""

from __future__ import annotations

import asyncio
from collections.abc import Sized
from typing import Any

from uvicorn.protocols.http.flow_control import FlowControl


class OneWriteTransport:
    """Gathers what is written in one turn of the loop: uvicorn writes head and body of an answer
    one after the other, and each write is a system call and a packet."""

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

    @property
    def has_more(self) -> bool:
        """Something waits to be written, here or with the system."""
        return bool(self._gathered) or self._transport.get_write_buffer_size() > 0

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


class OneAfterTheOther(FlowControl):
    """Reads no further while a request waits for the one before it: a client that sends and does
    not read would fill the memory."""

    def __init__(self, transport: asyncio.Transport, waiting: Sized) -> None:
        super().__init__(transport)
        self._waiting = waiting

    def resume_reading(self) -> None:
        if not self._waiting:
            super().resume_reading()
