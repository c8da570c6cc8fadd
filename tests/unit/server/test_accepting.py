"""A server that was short of memory accepts connections again."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from shiftboss.server.http.open_connections import always_accepting

uvloop = pytest.importorskip("uvloop")


class Greeting(asyncio.Protocol):
    """There is no memory for the first one."""

    memory: Iterator[bool] = iter(())

    def __init__(self) -> None:
        if not next(self.memory):
            raise MemoryError

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        transport.write(b"hello")
        transport.close()


async def greetings() -> list[bytes]:
    Greeting.memory = iter((False, True))
    loop = asyncio.get_running_loop()
    server = await loop.create_server(always_accepting(Greeting), "127.0.0.1", 0)
    heard = []
    for _ in range(2):
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        try:
            async with asyncio.timeout(30):
                heard.append(await reader.read())
        except ConnectionError:
            heard.append(b"")
        writer.close()
    server.close()
    return heard


def test_a_connection_without_memory_is_refused_and_the_next_one_is_served() -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(greetings()) == [b"", b"hello"]
