"""A proxy to PostgreSQL that cuts the connection between a COMMIT and its answer, or freezes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit


class CuttingProxy:
    """Forwards everything. Once `armed`, the next COMMIT is carried out by PostgreSQL, and the
    connection is cut before the answer comes back. While `passes` is not set, nothing gets through
    in either direction, and connections are accepted and not answered."""

    def __init__(self, real_socket: Path) -> None:
        self._real_socket = real_socket
        self._cutting: asyncio.StreamReader | None = None
        self.armed = False
        self.cuts = 0
        self._connections: set[asyncio.Task[None]] = set()
        self.passes = asyncio.Event()
        self.passes.set()

    async def connect(self, client: asyncio.StreamReader, answers: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            with contextlib.suppress(ConnectionError):
                await self._forward(client, answers)
        finally:
            self._connections.discard(task)
            answers.close()

    async def close(self) -> None:
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _forward(self, client: asyncio.StreamReader, answers: asyncio.StreamWriter) -> None:
        await self.passes.wait()
        replies, server = await asyncio.open_unix_connection(str(self._real_socket))
        back = asyncio.create_task(self._pass_back(replies, answers))
        try:
            while data := await client.read(65536):
                await self.passes.wait()
                if self.armed and b"COMMIT\0" in data:
                    self.armed = False
                    self._cutting = replies
                server.write(data)
                await server.drain()
        finally:
            back.cancel()
            server.close()

    async def _pass_back(
        self, replies: asyncio.StreamReader, answers: asyncio.StreamWriter
    ) -> None:
        while data := await replies.read(65536):
            await self.passes.wait()
            if replies is self._cutting:
                self.cuts += 1
                break
            answers.write(data)
            with contextlib.suppress(ConnectionError):
                await answers.drain()
        answers.close()


@asynccontextmanager
async def cutting_proxy(url: str, folder: Path) -> AsyncIterator[tuple[str, CuttingProxy]]:
    """The address of the same database through the proxy, and the proxy."""
    (real_folder,) = parse_qs(urlsplit(url).query)["host"]
    proxy = CuttingProxy(Path(real_folder) / ".s.PGSQL.5432")
    server = await asyncio.start_unix_server(proxy.connect, folder / ".s.PGSQL.5432")
    async with server:
        try:
            yield url.replace(real_folder, str(folder)), proxy
        finally:
            await proxy.close()
