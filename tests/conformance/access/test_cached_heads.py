"""The cache of request heads must not outlive the token in them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import pytest

from shiftboss.coordinator.coordinator import Coordinator
from shiftboss.coordinator.deployment.sessions import SESSION_MS
from shiftboss.protocol.deployment.sessions import CreateLoginRequest
from shiftboss.protocol.deployment.tokens import CreateTokenRequest, RevokeTokenRequest
from shiftboss.rules.access.actors import OPERATOR
from shiftboss.server.fast_path.head_cache import HeadCache
from shiftboss.server.http.app import App
from shiftboss.store.current_actor import CURRENT_ACTOR
from shiftboss.store.open_store import store_at
from tests.in_process import ManualClock
from tests.listener import Listener

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("OWN-06")]


class Reached(NamedTuple):
    coordinator: Coordinator
    app: App
    clock: ManualClock
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    has_fast_path: bool

    async def status(self, token: str) -> int:
        """Of the same bytes each time, on one connection."""
        return await self.status_with(f"Authorization: Bearer {token}")

    async def status_with(self, header: str) -> int:
        body = b'{"swarm_id":"default"}'
        head = (
            "POST /bus/get_status HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            f"{header}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        self.writer.write(head.encode() + body)
        async with asyncio.timeout(30):
            answer_head = await self.reader.readuntil(b"\r\n\r\n")
            length = answer_head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
            await self.reader.readexactly(int(length))
        return int(answer_head.split()[1])


@pytest.fixture(params=[True, False], ids=["fast path", "plain ASGI"])
async def reached(sqlite_path: str, request: pytest.FixtureRequest) -> AsyncIterator[Reached]:
    clock = ManualClock()
    coordinator = Coordinator(store_at(sqlite_path), clock=clock)
    app = App(coordinator, needs_token=True)
    await coordinator.start()
    async with Listener(app, fast_path=request.param).listening() as listener:
        reader, writer = await asyncio.open_connection(listener.host, listener.port)
        yield Reached(coordinator, app, clock, reader, writer, request.param)
        writer.close()
    await coordinator.stop()


async def create(reached: Reached, **members: Any) -> str:
    request = CreateTokenRequest(name="ci", role="worker", **members)
    return (await reached.coordinator.tokens.create_token(request)).token


async def test_a_head_that_is_known_is_refused_once_its_token_is_revoked(reached: Reached) -> None:
    token = await create(reached)
    assert [await reached.status(token) for _ in range(3)] == [200] * 3
    await reached.coordinator.tokens.revoke_token(RevokeTokenRequest(token="ci"))
    assert [await reached.status(token) for _ in range(2)] == [401] * 2


async def test_a_head_that_is_known_is_refused_once_its_token_has_expired(
    reached: Reached,
) -> None:
    token = await create(reached, expires_in_seconds=60)
    assert [await reached.status(token) for _ in range(3)] == [200] * 3
    reached.clock.now_ms += 60_000
    assert [await reached.status(token) for _ in range(2)] == [401] * 2


async def test_tokens_of_files_can_be_replaced(reached: Reached) -> None:
    """Two at once while they are rotated."""
    tokens = reached.app.guard.tokens
    tokens.replace_given(["old", "new"], [])
    assert [await reached.status(token) for token in ("old", "new", "old", "new")] == [200] * 4
    tokens.replace_given(["new"], [])
    assert [await reached.status(token) for token in ("old", "new", "old", "new")] == [
        401,
        200,
        401,
        200,
    ]


async def test_the_cache_is_really_used(reached: Reached, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the tests above would show nothing."""
    found = []
    find = HeadCache.find

    def noting(cache: HeadCache, packet: bytes, version: int) -> Any:
        found.append(result := find(cache, packet, version))
        return result

    monkeypatch.setattr(HeadCache, "find", noting)
    token = await create(reached)
    for _ in range(3):
        await reached.status(token)
    expected = [False, True, True] if reached.has_fast_path else []
    assert [cached is not None for cached in found] == expected


async def test_a_cookie_counts_on_both_paths_until_its_session_ends(reached: Reached) -> None:
    sessions = reached.coordinator.sessions
    CURRENT_ACTOR.set(OPERATOR)
    link = await sessions.create_login(CreateLoginRequest())
    new = await sessions.log_in(link.code)
    header = f"Cookie: shiftboss_session={new.secret}"
    foreign = f"{header}\r\nOrigin: http://evil.example"
    for _ in range(3):
        assert await reached.status_with(header) == 200
        assert await reached.status_with(foreign) == 403
    await reached.coordinator.tokens.revoke_token(RevokeTokenRequest(token=new.token.token_id))
    assert await reached.status_with(header) == 401


async def test_a_cookie_in_the_cache_expires(reached: Reached) -> None:
    sessions = reached.coordinator.sessions
    CURRENT_ACTOR.set(OPERATOR)
    new = await sessions.log_in((await sessions.create_login(CreateLoginRequest())).code)
    header = f"Cookie: shiftboss_session={new.secret}"
    assert await reached.status_with(header) == 200
    reached.clock.now_ms += SESSION_MS
    assert await reached.status_with(header) == 401
