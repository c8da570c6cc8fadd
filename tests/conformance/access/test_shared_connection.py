"""Callers with different tokens on one connection, as behind a proxy: nobody acts as another."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from shiftboss.coordinator.coordinator import Coordinator
from shiftboss.protocol.deployment.tokens import CreateTokenRequest, RoleName
from shiftboss.server.http.app import App
from shiftboss.store.open_store import store_at
from tests.in_process import ManualClock
from tests.listener import Listener

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("OWN-06")]


class SharedConnection:
    def __init__(
        self, coordinator: Coordinator, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.coordinator = coordinator
        self._reader = reader
        self._writer = writer

    async def create_token(self, name: str, role: RoleName) -> str:
        request = CreateTokenRequest(name=name, role=role)
        return (await self.coordinator.tokens.create_token(request)).token

    async def send(self, *requests: tuple[str | None, str]) -> list[int]:
        """Add a task each, all of them in one packet: the statuses."""
        self._writer.write(b"".join(_request(token, task) for token, task in requests))
        return [await self._status() for _ in requests]

    async def _status(self) -> int:
        async with asyncio.timeout(30):
            head = await self._reader.readuntil(b"\r\n\r\n")
            length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
            await self._reader.readexactly(int(length))
        return int(head.split()[1])

    async def actors(self) -> dict[str, str]:
        """Who has added each task."""
        events = await self.coordinator.swarms.events_after("default", 0, 100)
        frames = [event.to_sse().decode().splitlines() for event in events]
        found = {}
        for lines in frames:
            members = dict(line.partition(": ")[::2] for line in lines if ": " in line)
            found[json.loads(members["data"])["bead_id"]] = members["actor"]
        return found


def _request(token: str | None, task: str) -> bytes:
    body = json.dumps({"bead_id": task, "title": task}).encode()
    authorization = "" if token is None else f"Authorization: Bearer {token}\r\n"
    head = (
        f"POST /bus/add_task HTTP/1.1\r\nHost: 127.0.0.1\r\n{authorization}"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


@pytest.fixture(params=[True, False], ids=["fast path", "plain ASGI"])
async def connection(
    sqlite_path: str, request: pytest.FixtureRequest
) -> AsyncIterator[SharedConnection]:
    coordinator = Coordinator(store_at(sqlite_path), clock=ManualClock())
    app = App(coordinator, needs_token=True)
    await coordinator.start()
    async with Listener(app, fast_path=request.param).listening() as listener:
        reader, writer = await asyncio.open_connection(listener.host, listener.port)
        yield SharedConnection(coordinator, reader, writer)
        writer.close()
    await coordinator.stop()


async def test_each_request_of_a_connection_has_its_own_actor(
    connection: SharedConnection,
) -> None:
    alice, bob = [await connection.create_token(name, "spawner") for name in ("alice", "bob")]
    eve = await connection.create_token("eve", "read-only")
    assert await connection.send((alice, "A1")) == [200]
    assert await connection.send((bob, "B1")) == [200]
    assert await connection.send((eve, "E1")) == [403]
    assert await connection.send((None, "N1")) == [401]
    assert await connection.send((alice, "A2")) == [200]
    assert await connection.actors() == {"A1": "alice", "B1": "bob", "A2": "alice"}


async def test_pipelined_requests_keep_their_actors(connection: SharedConnection) -> None:
    alice, bob = [await connection.create_token(name, "spawner") for name in ("alice", "bob")]
    eve = await connection.create_token("eve", "read-only")
    requests = [(alice, "A1"), (eve, "E1"), (bob, "B1"), (None, "N1"), (alice, "A2"), (bob, "B2")]
    assert await connection.send(*requests) == [200, 403, 200, 401, 200, 200]
    assert await connection.actors() == {"A1": "alice", "B1": "bob", "A2": "alice", "B2": "bob"}
