"""Calling an MCP tool: arguments in, a JSON document out, also for a refusal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from pydantic_core import PydanticSerializationError, to_json
from starlette.types import Scope

from shiftboss.coordinator.coordinator import Coordinator
from shiftboss.errors import InvalidRequest, ShiftbossError
from shiftboss.rules.access.scope import check_permission
from shiftboss.server.http.access_log import CURRENT_REQUEST
from shiftboss.server.http.calls import render_compact
from shiftboss.server.http.replies import public_error
from shiftboss.server.http.requests import header, is_idempotency_key
from shiftboss.server.mcp.tools import CallContext, Tool
from shiftboss.server.operations.authorization import authorize
from shiftboss.server.operations.bus import refusal as bus_refusal
from shiftboss.server.operations.operation import is_audited
from shiftboss.server.operations.swarms import parse
from shiftboss.store.current_actor import CURRENT_ACTOR

# Where Claude Code and Codex put the id of a call.
CALL_ID_KEYS: Final = ("claudecode/toolUseId", "callId")


class ToolResult(NamedTuple):
    """`document` is the JSON of the answer or of the refusal."""

    document: bytes
    is_error: bool = False


class ToolService:
    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator

    async def call(self, tool: Tool, arguments: dict[str, Any], context: CallContext) -> ToolResult:
        actor, facts = CURRENT_ACTOR.get(), CURRENT_REQUEST.get()
        if facts is not None:
            facts.tool = tool.name
            facts.is_audited = is_audited(tool.name, tool.permission, reads=tool.reads)
        try:
            body = _as_json(arguments)
            if facts is not None:
                facts.body = body
            check_permission(actor, tool.permission)
            request = parse(tool.request, body)
            request = authorize(actor, tool.permission, request, reads=tool.reads)
            return ToolResult(render_compact(await tool.call(self._coordinator, request, context)))
        except Exception as error:  # noqa: BLE001 (logged if it is not a refusal)
            problem = public_error(error, tool.name)
            if facts is not None:
                facts.code = problem.code
            return refusal(tool, problem)


def _as_json(arguments: dict[str, Any]) -> bytes:
    """So that they are validated like the body of an HTTP request, with the same errors."""
    try:
        return to_json(arguments)
    except PydanticSerializationError:
        raise InvalidRequest("arguments: must be valid Unicode", field="arguments") from None


def refusal(tool: Tool, error: ShiftbossError) -> ToolResult:
    document = bus_refusal(tool.name, error)
    document |= {"code": error.code, "field": error.field, "hint": error.hint}
    return ToolResult(to_json(document | error.facts), is_error=True)


def call_id(meta: Mapping[str, Any]) -> str | None:
    """The client's id of the call, which stays the same when the client repeats it.

    An id that is no valid idempotency key is ignored: the worker did not choose it.
    """
    for name in CALL_ID_KEYS:
        value = meta.get(name)
        if isinstance(value, str):
            return value if is_idempotency_key(value) else None
    return None


def address_of(scope: Scope) -> str:
    return f"{scope['scheme']}://{header(scope['headers'], b'host')}"
