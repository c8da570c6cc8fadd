"""There are tools and nothing else: clients that ask for more get an empty list, not an error."""

from __future__ import annotations

from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
)

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
