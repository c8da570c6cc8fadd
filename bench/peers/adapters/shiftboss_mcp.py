"""Shiftboss over MCP: the same calls as tools, without a library."""

from __future__ import annotations

import json
from typing import Any, Final

from bench.peers.adapters.lean_http import LeanConnection
from bench.peers.adapters.shiftboss_http import Call, enqueuing, server, take_tasks
from bench.peers.producer import OneByOne

_HEADERS: Final = (
    "Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2025-11-25\r\n"
)


def over_mcp(number: int) -> Call:
    connection = LeanConnection(server(number), _HEADERS)

    def call(tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        params = {"name": tool, "arguments": arguments}
        request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        result = connection.post("/mcp", request)["result"]
        if result.get("isError"):
            raise RuntimeError(f"{tool}: {result}")
        answer: dict[str, Any] = json.loads(result["content"][0]["text"])
        return answer

    return call


def producer(number: int) -> OneByOne:
    return enqueuing(over_mcp(number))


def work(number: int) -> None:
    take_tasks(over_mcp(number), f"w-{number}")
