"""The tools on the official SDK. Only those who need it import this module."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import cache
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
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    TextContent,
    ToolAnnotations,
)
from mcp_types import Tool as ListedTool
from pydantic_core import from_json

from shiftboss import __version__
from shiftboss.server.mcp.calls import ToolResult, ToolService, address_of, call_id
from shiftboss.server.mcp.plain_calls import SERVER_NAME
from shiftboss.server.mcp.tools import TOOLS, Caller, Tool

# There are tools and nothing else: clients that ask for more get an empty list, not an error.


Context = ServerRequestContext[Any, Any]


async def list_resources(
    _context: Context, _page: PaginatedRequestParams | None
) -> ListResourcesResult:
    return ListResourcesResult(resources=[])


async def list_resource_templates(
    _context: Context, _page: PaginatedRequestParams | None
) -> ListResourceTemplatesResult:
    return ListResourceTemplatesResult(resource_templates=[])


async def read_resource(_context: Context, params: ReadResourceRequestParams) -> ReadResourceResult:
    raise MCPError(code=INVALID_PARAMS, message="Resource not found", data={"uri": str(params.uri)})


async def list_prompts(
    _context: Context, _page: PaginatedRequestParams | None
) -> ListPromptsResult:
    return ListPromptsResult(prompts=[])


# JSON Schema of the tools, from the types that check the calls.


# Not a list of types: some clients know single ones only.
_TEXT_OR_NULL = {"anyOf": [{"type": "string"}, {"type": "null"}]}
_REFUSAL = {
    "type": "object",
    "required": ["error", "code"],
    "properties": {
        "success": {"const": False},
        "error": {"type": "string"},
        "code": {"type": "string"},
        "field": _TEXT_OR_NULL,
        "hint": _TEXT_OR_NULL,
    },
}


@cache
def input_schema(name: str) -> dict[str, Any] | None:
    """What a call of the tool takes; None when there is no such tool."""
    tool = TOOLS.get(name)
    if tool is None:
        return None
    schema: dict[str, Any] = _plain(tool.request.model_json_schema())
    # Written for those who read the code; the tool has a description of its own.
    schema.pop("description", None)
    return schema


def output_schema(tool: Tool) -> dict[str, Any]:
    """The answer or a refusal: clients check the content of refused calls too.

    In the mode of validation, where members with a default may be missing: they are left out of
    an answer when they say nothing.
    """
    answer: dict[str, Any] = _plain(tool.answer.model_json_schema(mode="validation"))
    definitions = answer.pop("$defs", {})
    schema: dict[str, Any] = {"type": "object", "anyOf": [answer, _REFUSAL]}
    return schema | ({"$defs": definitions} if definitions else {})


def _plain(schema: Any) -> Any:
    """Without the titles that only repeat the names."""
    if isinstance(schema, dict):
        return {
            name: _plain(value)
            for name, value in schema.items()
            if not (name == "title" and isinstance(value, str))
        }
    return [_plain(value) for value in schema] if isinstance(schema, list) else schema


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
        on_list_resources=list_resources,
        on_list_resource_templates=list_resource_templates,
        on_read_resource=read_resource,
        on_list_prompts=list_prompts,
    )


def http_manager(desk: ToolService) -> StreamableHTTPSessionManager:
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
