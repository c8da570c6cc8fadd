"""The tools on the official SDK. Only those who need it import this module."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

from mcp.server.caching import CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    ToolAnnotations,
)
from mcp_types import Tool as ListedTool
from pydantic_core import from_json

from shiftboss import __version__
from shiftboss.server.mcp import nothing_else
from shiftboss.server.mcp.calls import ToolDesk, ToolResult, address_of, call_id
from shiftboss.server.mcp.plain_calls import SERVER_NAME
from shiftboss.server.mcp.schemas import input_schema, output_schema
from shiftboss.server.mcp.tools import TOOLS, Caller, Tool

Context = ServerRequestContext[Any, Any]
CallTool = Callable[[Tool, dict[str, Any], Context], Awaitable[ToolResult]]

# The tools change with the version of the server alone.
TOOLS_TTL_MS: Final = 3_600_000

INSTRUCTIONS: Final = (
    "A bus that hands tasks to workers. As a worker: register_worker once, then poll_task; "
    "ack_task what you get before you start; end it with worker_done or task_failed; poll again, "
    "also after a timeout. To give out work: add_task, then submit_task; get_status shows who "
    "does what."
)


def bus_server(call: CallTool) -> Server[Any]:
    """`call` answers the calls: here, or wherever the coordinator is."""

    async def list_tools(
        _context: Context, _page: PaginatedRequestParams | None
    ) -> ListToolsResult:
        return ListToolsResult(tools=[_listed(tool) for tool in TOOLS.values()])

    async def call_tool(context: Context, params: CallToolRequestParams) -> CallToolResult:
        tool = TOOLS.get(params.name)
        if tool is None:
            raise MCPError(code=INVALID_PARAMS, message=f"Unknown tool: {params.name}")
        return _of_sdk(await call(tool, params.arguments or {}, context))

    return Server(
        SERVER_NAME,
        version=__version__,
        instructions=INSTRUCTIONS,
        cache_hints={"tools/list": CacheHint(ttl_ms=TOOLS_TTL_MS, scope="public")},
        get_tool_input_schema=input_schema,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=nothing_else.list_resources,
        on_list_resource_templates=nothing_else.list_resource_templates,
        on_read_resource=nothing_else.read_resource,
        on_list_prompts=nothing_else.list_prompts,
    )


def http_manager(desk: ToolDesk) -> StreamableHTTPSessionManager:
    """Without sessions: what is remembered is in the store. Host and Origin are ours to check."""

    async def call(tool: Tool, arguments: dict[str, Any], context: Context) -> ToolResult:
        assert context.request is not None, "a call over HTTP comes with its request"
        caller = Caller(call_id(context.meta or {}), address_of(context.request.scope))
        return await desk.call(tool, arguments, caller)

    # It tells of every request otherwise.
    logging.getLogger("mcp").setLevel(logging.WARNING)
    return StreamableHTTPSessionManager(bus_server(call), stateless=True)


def _listed(tool: Tool) -> ListedTool:
    return ListedTool(
        name=tool.name,
        description=tool.description,
        input_schema=input_schema(tool.name) or {},
        output_schema=output_schema(tool),
        annotations=ToolAnnotations(read_only_hint=tool.reads, open_world_hint=False),
    )


def _of_sdk(result: ToolResult) -> CallToolResult:
    return CallToolResult(
        content=[TextContent(text=result.document.decode())],
        structured_content=from_json(result.document),
        is_error=result.is_error,
    )
