"""A transport that turns the writes of one turn of the event loop into one."""

from __future__ import annotations

import asyncio
from typing import Any


class CoalescingTransport:
    """uvicorn writes the head and the body of a response separately, and each write would be a
    system call and a packet."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._parts: list[bytes] = []
        self.is_closing = transport.is_closing

    def write(self, data: bytes) -> None:
        if not self._parts:
            self._loop.call_soon(self._flush)
        self._parts.append(data)

    def write_now(self, data: bytes) -> None:
        """Write a complete response, after what was written before it."""
        self._flush()
        self._transport.write(data)

    @property
    def has_unsent(self) -> bool:
        return bool(self._parts) or self._transport.get_write_buffer_size() > 0

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        if self._parts:
            parts, self._parts = self._parts, []
            if not self.is_closing():
                self._transport.write(b"".join(parts))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)
