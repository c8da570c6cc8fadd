"""The official MCP client, over each way to reach the bus."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal

from mcp import Client, StdioServerParameters
from mcp_types import CallToolResult, TextContent

from tests.client import Client as HttpClient
from tests.commands import environment
from tests.fork_server import forked_command

Surface = Literal["2026-07-28", "2025-11-25", "stdio"]
SURFACES: tuple[Surface, ...] = ("2026-07-28", "2025-11-25", "stdio")


class Bus:
    """`await bus.call("poll_task", name="z.ai1")` gives the answer that the document shows."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def call(self, tool: str, **arguments: object) -> dict[str, Any]:
        return accepted(await self.client.call_tool(tool, arguments))

    async def refused(self, tool: str, **arguments: object) -> dict[str, Any]:
        result = await self.client.call_tool(tool, arguments)
        assert result.is_error, result
        return said(result)

    async def repeated(self, key: str, tool: str, **arguments: object) -> CallToolResult:
        """A call that carries the id that Claude Code gives it."""
        meta: Any = {"claudecode/toolUseId": key}
        return await self.client.call_tool(tool, arguments, meta=meta)


def accepted(result: CallToolResult) -> dict[str, Any]:
    assert not result.is_error, result
    return said(result)


def said(result: CallToolResult) -> dict[str, Any]:
    """The structured content, which the text repeats."""
    (content,) = result.content
    assert isinstance(content, TextContent)
    assert json.loads(content.text) == result.structured_content
    document: dict[str, Any] = result.structured_content
    return document


@asynccontextmanager
async def connected(url: str, surface: Surface) -> AsyncIterator[Bus]:
    if surface == "stdio":
        target: str | StdioServerParameters = stdio_command(url)
    else:
        target = f"{url}/mcp"
    mode = "legacy" if surface == "2025-11-25" else "auto"
    async with Client(target, mode=mode) as client:
        yield Bus(client)


def stdio_command(url: str) -> StdioServerParameters:
    program, *arguments = forked_command(["-m", "shiftboss.cli.main", "mcp", "--server", url])
    return StdioServerParameters(command=program, args=arguments, env=environment())


def status_of(client: HttpClient, name: str) -> str | None:
    """The status of a worker, over plain HTTP."""
    workers = client.post("/bus/get_status", {}).json()["workers"]
    return next((worker["status"] for worker in workers if worker["name"] == name), None)
