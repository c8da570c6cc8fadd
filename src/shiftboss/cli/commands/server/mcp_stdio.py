"""MCP on standard input and output: calls are forwarded to the server over HTTP."""

from __future__ import annotations

import asyncio
import signal
from typing import Any, Final

import httpx2
from mcp.server.stdio import stdio_server
from pydantic_core import from_json, to_json

from shiftboss.client.errors import ServerBusy, ServerUnreachable
from shiftboss.client.http_client import connection_errors, read_reply
from shiftboss.client.server_address import Server
from shiftboss.client.servers import Attempts, Servers
from shiftboss.defaults import STREAM_SILENCE_SECONDS
from shiftboss.errors import ShiftbossError, Unauthorized
from shiftboss.server.mcp.calls import CALL_ID_KEYS, ToolResult, call_id, refusal
from shiftboss.server.mcp.endpoint import MCP_PATH
from shiftboss.server.mcp.sdk import Context, bus_server
from shiftboss.server.mcp.tools import Tool

TIMEOUT: Final = httpx2.Timeout(STREAM_SILENCE_SECONDS, connect=2.0)
HEADERS: Final = {
    "Accept": "application/json, text/event-stream",
    "Content-Type": "application/json",
    "MCP-Protocol-Version": "2025-11-25",
}


def serve(servers: Servers) -> None:
    """Runs until standard input closes."""
    # The thread that reads standard input cannot be interrupted, so Ctrl-C kills the process.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    asyncio.run(_serve(servers))


async def _serve(servers: Servers) -> None:
    async with stdio_server() as (read, write):
        forwarder = Forwarder(servers)
        bus = bus_server(forwarder.call)
        try:
            await bus.run(read, write, bus.create_initialization_options())
        finally:
            await forwarder.close()


class Forwarder:
    """Forwards tool calls to the MCP endpoint of the server. A call with an id, which counts once,
    is repeated at the next address if its outcome is unknown."""

    def __init__(self, servers: Servers) -> None:
        self._servers = servers
        self._clients: dict[Server, httpx2.AsyncClient] = {}

    async def close(self) -> None:
        for client in self._clients.values():
            await client.aclose()

    async def call(self, tool: Tool, arguments: dict[str, Any], context: Context) -> ToolResult:
        key = call_id(context.meta or {})
        request = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {
                "name": tool.name,
                "arguments": arguments,
                "_meta": {} if key is None else {CALL_ID_KEYS[0]: key},
            },
        }
        try:
            return await self._send(to_json(request), is_repeatable=key is not None)
        except ServerBusy as busy:
            return refusal(tool, busy.problem)
        except ShiftbossError as error:
            return refusal(tool, error)

    async def _send(self, request: bytes, *, is_repeatable: bool) -> ToolResult:
        attempts = Attempts(self._servers, is_repeatable=is_repeatable)
        for server in attempts:
            try:
                result = _result(await self._exchange(server, request), server.address)
            except (ServerUnreachable, Unauthorized) as error:
                attempts.note_failure(server, error)
            else:
                self._servers.note_accepted()
                return result
        raise AssertionError("attempts end with an error")

    async def _exchange(self, server: Server, request: bytes) -> dict[str, Any]:
        if server not in self._clients:
            self._clients[server] = server.async_client()
        client = self._clients[server]
        with connection_errors(server.address):
            async with client.stream(
                "POST", MCP_PATH, content=request, headers=HEADERS, timeout=TIMEOUT
            ) as response:
                if response.headers.get("content-type", "").startswith("text/event-stream"):
                    return await _from_stream(response)
                await response.aread()
                return read_reply(response).answer


async def _from_stream(response: httpx2.Response) -> dict[str, Any]:
    async for event in httpx2.EventSource(response):
        if event.data:
            return _json_object(event.data)
    return {}


def _json_object(text: str) -> dict[str, Any]:
    try:
        message = from_json(text)
    except ValueError:
        return {}
    return message if isinstance(message, dict) else {}


def _result(message: dict[str, Any], address: str) -> ToolResult:
    try:
        result = message["result"]
        return ToolResult(to_json(result["structuredContent"]), is_error=result["isError"])
    except (KeyError, TypeError):
        raise ServerUnreachable(
            f"{address} did not answer as a Shiftboss server does",
            hint="is it the same version of Shiftboss, and is --server right?",
        ) from None
