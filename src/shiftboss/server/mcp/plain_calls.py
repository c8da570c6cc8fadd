"""Plain calls: a single `tools/call` of a known tool, answered without the SDK.

Every other request, and every request that may be wrong, is left to the SDK: it has the errors and
the rarer parts of the protocol.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from pydantic_core import from_json, to_json
from starlette.types import Scope

from shiftboss import __version__
from shiftboss.server.mcp.calls import ToolResult
from shiftboss.server.mcp.tools import TOOLS, Tool

# Revisions that begin with a handshake. A server without sessions does not need to see it.
HANDSHAKE_REVISIONS: Final = frozenset({"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"})
# Revisions in which every request carries what the handshake contained.
ENVELOPE_REVISIONS: Final = frozenset({"2026-07-28"})

SERVER_NAME: Final = "shiftboss"

_METHOD: Final = "tools/call"
_PREFIX: Final = "io.modelcontextprotocol/"
_REVISION: Final = f"{_PREFIX}protocolVersion"
_CAPABILITIES: Final = f"{_PREFIX}clientCapabilities"
_CLIENT: Final = f"{_PREFIX}clientInfo"
_ENVELOPE: Final = frozenset({_REVISION, _CAPABILITIES, _CLIENT})
_REQUEST: Final = frozenset({"jsonrpc", "id", "method", "params"})
_PARAMS: Final = frozenset({"name", "arguments", "_meta"})
_HEADERS: Final = frozenset(
    {b"content-type", b"accept", b"mcp-protocol-version", b"mcp-method", b"mcp-name"}
)
_ACCEPTED: Final = frozenset({"application/json", "text/event-stream"})
_SERVER_INFO: Final = to_json(
    {"io.modelcontextprotocol/serverInfo": {"name": SERVER_NAME, "version": __version__}}
)


class PlainCall(NamedTuple):
    request_id: int | str
    tool: Tool
    arguments: dict[str, Any]
    meta: dict[str, Any]
    has_envelope: bool

    def response(self, result: ToolResult) -> bytes:
        """The JSON-RPC response. It has the result twice: as text and as structured content."""
        return b"".join(
            (
                b'{"jsonrpc":"2.0","id":',
                to_json(self.request_id),
                b',"result":{"content":[{"type":"text","text":',
                to_json(result.document.decode()),
                b'}],"structuredContent":',
                result.document,
                b',"isError":true' if result.is_error else b',"isError":false',
                b',"resultType":"complete","_meta":' + _SERVER_INFO if self.has_envelope else b"",
                b"}}",
            )
        )


def plain_call(scope: Scope, body: bytes) -> PlainCall | None:
    headers = _headers(scope)
    if headers is None:
        return None
    try:
        request = from_json(body)
    except ValueError:
        return None
    if not isinstance(request, dict) or request.keys() != _REQUEST:
        return None
    params = request["params"]
    if (
        request["jsonrpc"] != "2.0"
        or request["method"] != _METHOD
        or type(request["id"]) not in (int, str)
        or not isinstance(params, dict)
        or not params.keys() <= _PARAMS
    ):
        return None
    return _from_params(request["id"], params, headers)


def _from_params(
    request_id: int | str, params: dict[str, Any], headers: dict[bytes, str]
) -> PlainCall | None:
    name, arguments, meta = params.get("name"), params.get("arguments", {}), params.get("_meta", {})
    if not (isinstance(name, str) and isinstance(arguments, dict) and isinstance(meta, dict)):
        return None
    tool = TOOLS.get(name)
    if tool is None or type(meta.get("progressToken", "")) not in (int, str):
        return None
    revision = headers.get(b"mcp-protocol-version")
    has_envelope = revision in ENVELOPE_REVISIONS
    if has_envelope:
        if not _envelope_fits(meta, headers, name):
            return None
    elif (revision is not None and revision not in HANDSHAKE_REVISIONS) or _has_envelope(meta):
        return None
    return PlainCall(request_id, tool, arguments, meta, has_envelope)


def _headers(scope: Scope) -> dict[bytes, str] | None:
    """The relevant headers, if the client accepts a single JSON response to a JSON request.

    A client that ranks the two forms of a response (`;q=`) is left to the SDK.
    """
    relevant: dict[bytes, str] = {}
    for name, value in scope["headers"]:
        if name in _HEADERS:
            if name in relevant:
                return None
            relevant[name] = str(value, "latin-1").strip(" \t")
    is_json = relevant.get(b"content-type", "").partition(";")[0] == "application/json"
    accepted = {part.strip() for part in relevant.get(b"accept", "").split(",")}
    return relevant if is_json and accepted >= _ACCEPTED else None


def _envelope_fits(meta: dict[str, Any], headers: dict[bytes, str], name: str) -> bool:
    """Whether body and headers agree, and the envelope has exactly its members."""
    capabilities, client = meta.get(_CAPABILITIES), meta.get(_CLIENT, {"name": "", "version": ""})
    return (
        meta.get(_REVISION) == headers[b"mcp-protocol-version"]
        and headers.get(b"mcp-method") == _METHOD
        and headers.get(b"mcp-name") == name
        and isinstance(capabilities, dict)
        and all(isinstance(value, dict) for value in capabilities.values())
        and isinstance(client, dict)
        and isinstance(client.get("name"), str)
        and isinstance(client.get("version"), str)
        and not any(key.startswith(_PREFIX) and key not in _ENVELOPE for key in meta)
    )


def _has_envelope(meta: dict[str, Any]) -> bool:
    return any(key.startswith(_PREFIX) for key in meta)
