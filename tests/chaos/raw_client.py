"""A minimal HTTP client whose connection can be dropped at any time. Hundreds run at once."""

from __future__ import annotations

import asyncio
import json
from typing import Any, NamedTuple
from urllib.parse import urlsplit


class RawAnswer(NamedTuple):
    status: int
    body: dict[str, Any]


class RawClient:
    """`up` is set while the server can be reached; `cut_off` counts the requests without answer.
    A client that is not told when the server is up pauses before it tries again."""

    def __init__(self, url: str, up: asyncio.Event, pause_seconds: float = 0) -> None:
        self._address = urlsplit(url)
        self._up = up
        self._pause_seconds = pause_seconds
        self.cut_off = 0
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def ask(self, path: str, body: dict[str, object], key: str = "") -> RawAnswer:
        """Repeat the identical request until there is an answer."""
        while True:
            await self._up.wait()
            try:
                await self.send(path, body, key)
                return await self._receive()
            except (OSError, asyncio.IncompleteReadError):
                self.cut_off += self._writer is not None
                self.drop()
                # Zero: until the test has noticed that the server is dead.
                await asyncio.sleep(self._pause_seconds)

    async def send(self, path: str, body: dict[str, object], key: str = "") -> None:
        """Send a request without waiting for the answer. Raises OSError if the server is down."""
        if self._writer is None:
            self._reader, self._writer = await asyncio.open_connection(
                self._address.hostname, self._address.port
            )
        content = json.dumps(body).encode()
        key_line = f"Idempotency-Key: {key}\r\n" if key else ""
        self._writer.write(
            f"POST {path} HTTP/1.1\r\nHost: {self._address.netloc}\r\n{key_line}"
            f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n".encode()
            + content
        )
        await self._writer.drain()

    async def _receive(self) -> RawAnswer:
        assert self._reader is not None
        head = await self._reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length:", 1)[1].split(b"\r\n", 1)[0])
        content = await self._reader.readexactly(length)
        is_json = b"application/json" in head or b"problem+json" in head
        return RawAnswer(int(head[9:12]), json.loads(content) if is_json else {})

    def drop(self) -> None:
        """Abort the connection, as in a crash."""
        if self._writer is not None:
            self._writer.transport.abort()
        self._reader = self._writer = None
