"""The orchestrator's calls to the server, each retried until the server answers."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Final, Self

import httpx2

from shiftboss.client.http_client import HttpClient, ServerRequest, new_idempotency_key
from shiftboss.client.server_address import Server
from shiftboss.errors import SwarmExists

ANSWER_SECONDS: Final = 30.0
PAGE: Final = 500


class RunServerClient:
    """The calls of one run, which works on one swarm. Every call raises what the server refuses."""

    def __init__(self, server: Server, swarm_id: str, operator_token: str | None = None) -> None:
        self.server = server
        self.swarm_id = swarm_id
        self._operator_token = operator_token
        self._http = HttpClient(server)

    async def __aenter__(self) -> Self:
        await self._http.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._http.__aexit__(kind, error, traceback)

    async def call(
        self,
        operation: str,
        *,
        wait_seconds: float = 0,
        operator: bool = False,
        **members: object,
    ) -> dict[str, Any]:
        """`wait_seconds` is how long the server itself may take before it answers."""
        path = f"/{'operator' if operator else 'bus'}/{operation}"
        return await self._post(path, members, wait_seconds)

    async def all_of(self, operation: str, member: str) -> list[dict[str, Any]]:
        """The items that an operation lists as `member`, from all its pages."""
        items: list[dict[str, Any]] = []
        after: str | None = ""
        while after is not None:
            page = await self.call(operation, after=after, limit=PAGE)
            items += page[member]
            after = page["next_after"]
        return items

    async def spawn(self, **members: object) -> dict[str, Any]:
        """Give a task its contract. A server that the run started allows it only to the operator,
        whose token the run has. Any other server decides for itself."""
        is_operator = self._operator_token is not None
        path = "/operator/spawn_subtask" if is_operator else "/bus/swarm_spawn_subtask"
        return await self._post(path, members)

    async def create_swarm(self, goal: str) -> None:
        """A swarm that exists already stays as it is."""
        try:
            await self._post("/swarm/create", {"feature": goal})
        except SwarmExists:
            pass

    async def _post(
        self, path: str, members: Mapping[str, object], wait_seconds: float = 0
    ) -> dict[str, Any]:
        given = {name: value for name, value in members.items() if value is not None}
        is_operator = self._operator_token is not None and path.startswith("/operator/")
        request = ServerRequest(
            path=path,
            body=given | {"swarm_id": self.swarm_id},
            key=new_idempotency_key(),
            headers={"Shiftboss-Operator": self._operator_token or ""} if is_operator else {},
            timeout=httpx2.Timeout(ANSWER_SECONDS, connect=2.0, read=ANSWER_SECONDS + wait_seconds),
        )
        return (await self._http.send_until_answered(request)).answer
