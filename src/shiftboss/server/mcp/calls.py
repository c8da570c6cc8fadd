"""One call of a tool: arguments in, a document out, refusals included."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from pydantic_core import PydanticSerializationError, to_json
from starlette.types import Scope

from shiftboss.coordinator.coordinator import Coordinator
from shiftboss.errors import InvalidRequest, ShiftbossError
from shiftboss.server.http.calls import rendered
from shiftboss.server.http.exchange import header, is_idempotency_key
from shiftboss.server.mcp.tools import Caller, Tool
from shiftboss.server.operations.bus import refusal as bus_refusal
from shiftboss.server.operations.swarms import parse

log = logging.getLogger(__name__)

# Where clients put the id of a call: Claude Code, Codex.
CALL_ID_KEYS: Final = ("claudecode/toolUseId", "callId")


class ToolResult(NamedTuple):
    """`document` is the JSON of the answer or of the refusal."""

    document: bytes
    is_error: bool = False


class ToolService:
    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator

    async def call(self, tool: Tool, arguments: dict[str, Any], caller: Caller) -> ToolResult:
        try:
            request = parse(tool.request, _as_json(arguments))
            return ToolResult(rendered(await tool.call(self._coordinator, request, caller)))
        except ShiftbossError as error:
            return refusal(tool, error)
        except Exception:
            log.exception("%s failed", tool.name)
            return refusal(
                tool, ShiftbossError("something is wrong here", hint="see the server's log")
            )


def _as_json(arguments: dict[str, Any]) -> bytes:
    """So that they are checked, and complained about, as the body of an HTTP request is."""
    try:
        return to_json(arguments)
    except PydanticSerializationError:
        raise InvalidRequest("arguments: must be valid Unicode", field="arguments") from None


def refusal(tool: Tool, error: ShiftbossError) -> ToolResult:
    said = bus_refusal(tool.name, error)
    said |= {"code": error.code, "field": error.field, "hint": error.hint}
    return ToolResult(to_json(said | error.facts), is_error=True)


def call_id(meta: Mapping[str, Any]) -> str | None:
    """The client's id of the call, which a repeat carries again. One that cannot be used is the
    client's business, not the worker's: it is passed over."""
    for name in CALL_ID_KEYS:
        said = meta.get(name)
        if isinstance(said, str):
            return said if is_idempotency_key(said) else None
    return None


def address_of(scope: Scope) -> str:
    return f"{scope['scheme']}://{header(scope['headers'], b'host')}"
