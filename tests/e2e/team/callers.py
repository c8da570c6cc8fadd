"""People and agents with tokens, who call whichever server answers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from shiftboss.client.http_client import HttpClient, ServerRequest, new_idempotency_key
from shiftboss.client.servers import Servers
from shiftboss.errors import ShiftbossError


class StoredEvent(NamedTuple):
    event_id: int
    kind: str
    actor: str
    task: str | None
    text: str


class Caller:
    def __init__(self, name: str, token: str, addresses: Sequence[str]) -> None:
        self.name = name
        self.token = token
        self.addresses = list(addresses)
        self._servers = Servers.at(addresses, token)
        self._http = HttpClient(self._servers)

    async def call(self, path: str, **members: object) -> dict[str, Any]:
        """Raises what the server refuses."""
        request = ServerRequest(path=path, body=members, key=new_idempotency_key())
        return (await self._http.send(request)).answer

    async def get(self, path: str) -> dict[str, Any]:
        return (await self._http.send(ServerRequest(path=path))).answer

    async def bus(self, operation: str, **members: object) -> dict[str, Any]:
        return await self.call(f"/bus/{operation}", **members)

    async def operate(self, operation: str, **members: object) -> dict[str, Any]:
        return await self.call(f"/operator/{operation}", **members)

    async def refusal(self, path: str, members: dict[str, object] | None) -> str:
        """The code of the error; empty if it was accepted."""
        try:
            await (self.get(path) if members is None else self.call(path, **members))
        except ShiftbossError as error:
            return error.code
        return ""

    async def tool_refusal(self, tool: str, arguments: dict[str, object]) -> str:
        """The same over MCP."""
        call = {"name": tool, "arguments": arguments}
        request = ServerRequest(
            path="/mcp",
            body={"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call},
            headers={"Accept": "application/json, text/event-stream"},
            # Else it would not be sent again when its server is killed.
            key=new_idempotency_key(),
        )
        result = (await self._http.send(request)).answer["result"]
        return str(result["structuredContent"]["code"]) if result["isError"] else ""

    async def events(self, swarm_id: str) -> list[StoredEvent]:
        async with self._servers.current.async_client() as http:
            response = await http.get(f"/swarm/{swarm_id}/events", params={"follow": "false"})
        assert response.status_code == 200, response.text
        return [_parsed(part) for part in response.text.split("\n\n") if "\ndata: " in part]


def _parsed(text: str) -> StoredEvent:
    fields = dict(line.partition(": ")[::2] for line in text.splitlines())
    task = json.loads(fields["data"]).get("bead_id")
    return StoredEvent(int(fields["id"]), fields["event"], fields["actor"], task, text)
