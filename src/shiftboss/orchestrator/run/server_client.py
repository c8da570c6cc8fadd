"""The orchestrator's line to the server: one client, calls that wait for a server that is away."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Final, Self
from uuid import uuid4

import httpx2

from shiftboss.client.backoff import pauses
from shiftboss.client.exchange import ServerUnreachable, answer_of, reaching, says_later
from shiftboss.client.server_address import Server
from shiftboss.errors import SwarmExists

log = logging.getLogger(__name__)

ANSWER_SECONDS: Final = 30.0
PAGE: Final = 500


class RunServerClient:
    """Of one swarm."""

    def __init__(self, server: Server, swarm_id: str, operator_token: str | None = None) -> None:
        self.server = server
        self.swarm_id = swarm_id
        self._operator_token = operator_token
        self._client = server.async_client()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._client.aclose()

    async def call(
        self,
        operation: str,
        *,
        wait_seconds: float = 0,
        operator: bool = False,
        **members: object,
    ) -> dict[str, Any]:
        """The answer, however long the server is away. Raises what it refuses.

        A repeat after a lost answer counts once: it goes under the same key.
        """
        path = f"/{'operator' if operator else 'bus'}/{operation}"
        return await self._say(path, members, wait_seconds)

    async def all_of(self, operation: str, member: str) -> list[dict[str, Any]]:
        """What an operation lists as `member`, of all its pages."""
        found: list[dict[str, Any]] = []
        after: str | None = ""
        while after is not None:
            page = await self.call(operation, after=after, limit=PAGE)
            found += page[member]
            after = page["next_after"]
        return found

    async def spawn(self, **members: object) -> dict[str, Any]:
        """Give a task its contract. A server of our own lets nobody do it but the operator, whom
        we are there; any other decides that itself."""
        own = self._operator_token is not None
        path = "/operator/spawn_subtask" if own else "/bus/swarm_spawn_subtask"
        return await self._say(path, members)

    async def create_swarm(self, goal: str) -> None:
        """One that is there already stays as it is."""
        try:
            await self._say("/swarm/create", {"feature": goal})
        except SwarmExists:
            pass

    async def _say(
        self, path: str, members: Mapping[str, object], wait_seconds: float = 0
    ) -> dict[str, Any]:
        waits, key = pauses(), uuid4().hex
        said = {name: value for name, value in members.items() if value is not None}
        while True:
            try:
                return await self._once(path, said, key, wait_seconds)
            except ServerUnreachable as error:
                log.info("%s: %s; trying again", path, error.detail)
            await asyncio.sleep(next(waits))

    async def _once(
        self, path: str, members: Mapping[str, object], key: str, wait_seconds: float
    ) -> dict[str, Any]:
        headers = {"Idempotency-Key": key}
        if self._operator_token is not None and path.startswith("/operator/"):
            headers["Shiftboss-Operator"] = self._operator_token
        limits = httpx2.Timeout(ANSWER_SECONDS, connect=2.0, read=ANSWER_SECONDS + wait_seconds)
        with reaching(self.server.address):
            response = await self._client.post(
                path,
                json={**members, "swarm_id": self.swarm_id},
                headers=headers,
                timeout=limits,
            )
        if says_later(response):
            raise ServerUnreachable(f"{response.url} gave {response.status_code} and no answer")
        return answer_of(response)
