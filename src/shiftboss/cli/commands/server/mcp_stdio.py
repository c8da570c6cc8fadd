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
from shiftboss.defaults import STREAM_SILENCE_SECONDS
from shiftboss.errors import ShiftbossError
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


def serve(address: str, token: str | None) -> None:
    """Runs until standard input closes."""
    # The thread that reads standard input cannot be interrupted, so Ctrl-C kills the process.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    asyncio.run(_serve(Server.at(address, token)))


async def _serve(server: Server) -> None:
    async with server.async_client() as http, stdio_server() as (read, write):
        bus = bus_server(Forwarder(http, server.address).call)
        await bus.run(read, write, bus.create_initialization_options())


class Forwarder:
    """Forwards tool calls to the server's MCP endpoint."""

    def __init__(self, http: httpx2.AsyncClient, address: str) -> None:
        self._http = http
        self._address = address

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
            return _result(await self._exchange(to_json(request)), self._address)
        except ServerBusy as busy:
            return refusal(tool, busy.problem)
        except ShiftbossError as error:
            return refusal(tool, error)

    async def _exchange(self, request: bytes) -> dict[str, Any]:
        with connection_errors(self._address):
            async with self._http.stream(
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
