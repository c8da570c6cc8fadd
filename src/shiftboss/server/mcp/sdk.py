"""The tools on the official SDK. Import this module only where the SDK is needed: it is slow."""

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
from shiftboss.server.http.requests import ACTOR_KEY
from shiftboss.server.mcp.calls import ToolResult, ToolService, address_of, call_id
from shiftboss.server.mcp.plain_calls import SERVER_NAME
from shiftboss.server.mcp.tools import TOOLS, CallContext, Tool
from shiftboss.store.current_actor import CURRENT_ACTOR

Context = ServerRequestContext[Any, Any]

# There are only tools. Clients that ask for anything else get an empty list, not an error.


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


# Not a list of types, because some clients support only single ones.
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
    """The JSON Schema of the tool's arguments; None when there is no such tool."""
    tool = TOOLS.get(name)
    if tool is None:
        return None
    schema: dict[str, Any] = _without_titles(tool.request.model_json_schema())
    # The docstring of the type is for developers; the tool has a description of its own.
    schema.pop("description", None)
    return schema


def output_schema(tool: Tool) -> dict[str, Any]:
    """The JSON Schema of the answer or a refusal: clients validate refused calls too.

    The schema is for validation, where members with a default are optional: answers leave them out
    when they have their default value.
    """
    answer: dict[str, Any] = _without_titles(tool.answer.model_json_schema(mode="validation"))
    definitions = answer.pop("$defs", {})
    schema: dict[str, Any] = {"type": "object", "anyOf": [answer, _REFUSAL]}
    return schema | ({"$defs": definitions} if definitions else {})


def _without_titles(schema: Any) -> Any:
    """Remove the titles, which only repeat the names."""
    if isinstance(schema, dict):
        return {
            name: _without_titles(value)
            for name, value in schema.items()
            if not (name == "title" and isinstance(value, str))
        }
    return [_without_titles(value) for value in schema] if isinstance(schema, list) else schema


CallTool = Callable[[Tool, dict[str, Any], Context], Awaitable[ToolResult]]

# The tools change only with the version of the server.
TOOLS_TTL_MS: Final = 3_600_000

INSTRUCTIONS: Final = (
    "A bus that hands tasks to workers. As a worker: register_worker once, then poll_task; "
    "ack_task what you get before you start; end it with worker_done or task_failed; poll again, "
    "also after a timeout. To give out work: add_task, then submit_task; get_status shows who "
    "does what."
)


def bus_server(call: CallTool) -> Server[Any]:
    """`call` answers the calls, in this process or by forwarding them to the server."""

    async def list_tools(
        _context: Context, _page: PaginatedRequestParams | None
    ) -> ListToolsResult:
        return ListToolsResult(tools=[_sdk_tool(tool) for tool in TOOLS.values()])

    async def call_tool(context: Context, params: CallToolRequestParams) -> CallToolResult:
        tool = TOOLS.get(params.name)
        if tool is None:
            raise MCPError(code=INVALID_PARAMS, message=f"Unknown tool: {params.name}")
        return _sdk_result(await call(tool, params.arguments or {}, context))

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


def http_manager(tools: ToolService) -> StreamableHTTPSessionManager:
    """Without sessions: all state is in the store. The guard has checked Host and Origin."""

    async def call(tool: Tool, arguments: dict[str, Any], context: Context) -> ToolResult:
        assert context.request is not None, "a call over HTTP has its request"
        scope = context.request.scope
        # The SDK has tasks of its own, so that the context of the request may not be theirs.
        CURRENT_ACTOR.set(scope[ACTOR_KEY])
        call_context = CallContext(call_id(context.meta or {}), address_of(scope))
        return await tools.call(tool, arguments, call_context)

    # Otherwise it logs every request.
    logging.getLogger("mcp").setLevel(logging.WARNING)
    return StreamableHTTPSessionManager(bus_server(call), stateless=True)


def _sdk_tool(tool: Tool) -> ListedTool:
    return ListedTool(
        name=tool.name,
        description=tool.description,
        input_schema=input_schema(tool.name) or {},
        output_schema=output_schema(tool),
        annotations=ToolAnnotations(read_only_hint=tool.reads, open_world_hint=False),
    )


def _sdk_result(result: ToolResult) -> CallToolResult:
    return CallToolResult(
        content=[TextContent(text=result.document.decode())],
        structured_content=from_json(result.document),
        is_error=result.is_error,
    )
