"""JSON Schema of the tools, from the types that check the calls."""

from __future__ import annotations

from functools import cache
from typing import Any

from shiftboss.server.mcp.tools import TOOLS, Tool

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
