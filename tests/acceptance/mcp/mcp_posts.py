"""MCP by hand: requests that no client would send, and answers as JSON-RPC messages."""

from __future__ import annotations

import json
from typing import Any, Final, NamedTuple

import httpx2
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, KNOWN_PROTOCOL_VERSIONS

from tests.client import ANSWER_SECONDS, NO_CERTIFICATES

REVISIONS: Final = KNOWN_PROTOCOL_VERSIONS
# Answered by the bare handler.
PLAIN: Final = "application/json, text/event-stream"
# The same request in a form that is left to the SDK.
RANKED: Final = "application/json;q=1, text/event-stream"

_PREFIX: Final = "io.modelcontextprotocol/"


class Answered(NamedTuple):
    status: int
    content_type: str
    message: dict[str, Any]


class Poster:
    def __init__(self, url: str, revision: str, accept: str = PLAIN) -> None:
        self._revision = revision
        self._accept = accept
        self._http = httpx2.Client(
            base_url=url, timeout=ANSWER_SECONDS, trust_env=False, verify=NO_CERTIFICATES
        )

    def __enter__(self) -> Poster:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def call(self, tool: str, arguments: object, **changes: Any) -> Answered:
        """`changes` replace members of the JSON-RPC request."""
        body = call_request(self._revision, tool, arguments) | changes
        return self.post(json.dumps(body).encode(), headers(self._revision, tool))

    def post(self, body: bytes, further: dict[str, str]) -> Answered:
        response = self._http.post(
            "/mcp", content=body, headers={"Accept": self._accept, **further}
        )
        content_type = response.headers.get("content-type", "").partition(";")[0]
        return Answered(response.status_code, content_type, _message(response.text, content_type))


def call_request(revision: str, tool: str, arguments: object) -> dict[str, Any]:
    params: dict[str, Any] = {"name": tool, "arguments": arguments}
    if revision not in HANDSHAKE_PROTOCOL_VERSIONS:
        params["_meta"] = _envelope(revision)
    return {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}


def _envelope(revision: str) -> dict[str, Any]:
    return {
        f"{_PREFIX}protocolVersion": revision,
        f"{_PREFIX}clientCapabilities": {},
        f"{_PREFIX}clientInfo": {"name": "test", "version": "1"},
    }


def headers(revision: str, tool: str) -> dict[str, str]:
    values = {"Content-Type": "application/json", "MCP-Protocol-Version": revision}
    if revision in HANDSHAKE_PROTOCOL_VERSIONS:
        return values
    return values | {"Mcp-Method": "tools/call", "Mcp-Name": tool}


def _message(text: str, content_type: str) -> dict[str, Any]:
    """Empty when there is no response, as to a notification."""
    if content_type == "text/event-stream":
        (text,) = [line[6:] for line in text.split("\r\n") if line.startswith("data: ")]
    message: dict[str, Any] = json.loads(text or "{}")
    return message
