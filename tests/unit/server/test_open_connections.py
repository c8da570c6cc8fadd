"""The watch over the open connections."""

from __future__ import annotations

import asyncio
import logging

import pytest

from shiftboss.server.http.open_connections import ConnectionLimits, OpenConnections, Phase

pytestmark = pytest.mark.anyio


class Broken:
    """Its phase cannot be told at first. After that, it is too long without a request."""

    progress = 0

    def __init__(self) -> None:
        self.asked = 0
        self.closed = asyncio.Event()

    @property
    def phase(self) -> Phase:
        self.asked += 1
        if self.asked == 1:
            raise LookupError
        return Phase.NEW

    def refuse(self, error: Exception) -> None:
        raise AssertionError(error)

    def close(self) -> None:
        self.closed.set()

    def abort(self) -> None:
        raise AssertionError


async def test_an_error_does_not_end_the_watch(caplog: pytest.LogCaptureFixture) -> None:
    loop = asyncio.get_running_loop()
    connections = OpenConnections(ConnectionLimits(head_seconds=0.02), loop.time)
    connection = Broken()
    connections.admit(connection)
    watching = asyncio.create_task(connections.watch())
    try:
        async with asyncio.timeout(30):
            await connection.closed.wait()
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
