"""Which requests are plain calls, and which are left to the SDK."""

from __future__ import annotations

import json
from typing import Any

import pytest

from shiftboss.server.mcp.calls import ToolResult, call_id
from shiftboss.server.mcp.plain_calls import PlainCall, plain_call

ENVELOPE: dict[str, Any] = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
HEADERS = {
    "content-type": "application/json",
    "accept": "application/json, text/event-stream",
    "mcp-protocol-version": "2026-07-28",
    "mcp-method": "tools/call",
    "mcp-name": "get_status",
}
PARAMS: dict[str, Any] = {"name": "get_status", "arguments": {}, "_meta": ENVELOPE}
REQUEST: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": PARAMS}


def taken(request: object, headers: dict[str, str]) -> PlainCall | None:
    pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
    return plain_call({"headers": pairs}, json.dumps(request).encode())


@pytest.mark.parametrize("accept", ["text/event-stream,application/json", HEADERS["accept"]])
@pytest.mark.parametrize("content_type", ["application/json", "application/json; charset=utf-8"])
def test_a_plain_call_is_accepted(accept: str, content_type: str) -> None:
    call = taken(REQUEST, HEADERS | {"accept": accept, "content-type": content_type})
    assert call is not None
    assert (call.request_id, call.tool.name, call.has_envelope) == (1, "get_status", True)


def test_spaces_around_a_header_are_not_part_of_it() -> None:
    assert taken(REQUEST, HEADERS | {"mcp-name": " get_status  "}) is not None


def test_a_call_without_a_revision_has_no_envelope() -> None:
    headers = {name: HEADERS[name] for name in ("content-type", "accept")}
    call = taken(REQUEST | {"params": {"name": "get_status"}}, headers)
    assert call is not None
    assert (call.arguments, call.has_envelope) == ({}, False)


@pytest.mark.parametrize(
    "headers",
    [
        {"accept": "application/json"},
        {"accept": "*/*"},
        {"accept": "application/json;q=0.1, text/event-stream"},
        {"content-type": "text/plain"},
        {"mcp-name": "poll_task"},
        {"mcp-name": "=?base64?Z2V0X3N0YXR1cw==?="},
        {"mcp-method": "tools/list"},
        {"mcp-protocol-version": "2025-11-25"},
        {"mcp-protocol-version": "2099-01-01"},
    ],
)
def test_headers_that_are_not_plain_are_left_to_the_sdk(headers: dict[str, str]) -> None:
    assert taken(REQUEST, HEADERS | headers) is None


@pytest.mark.parametrize("name", HEADERS)
def test_every_header_is_required_exactly_once(name: str) -> None:
    without = {one: value for one, value in HEADERS.items() if one != name}
    assert taken(REQUEST, without) is None
    pairs = [(one.encode(), value.encode()) for one, value in HEADERS.items()]
    twice = [*pairs, (name.encode(), HEADERS[name].encode())]
    assert plain_call({"headers": twice}, json.dumps(REQUEST).encode()) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"jsonrpc": "1.0"},
        {"id": None},
        {"id": True},
        {"id": 1.5},
        {"method": "tools/list"},
        {"params": []},
        {"further": 1},
        {"params": PARAMS | {"name": "no_such_tool"}},
        {"params": PARAMS | {"arguments": []}},
        {"params": PARAMS | {"task": {}}},
        {"params": PARAMS | {"_meta": {}}},
        {"params": PARAMS | {"_meta": ENVELOPE | {"progressToken": True}}},
        {"params": PARAMS | {"_meta": ENVELOPE | {"io.modelcontextprotocol/logLevel": "info"}}},
        {"params": PARAMS | {"_meta": ENVELOPE | {"io.modelcontextprotocol/clientInfo": {}}}},
    ],
)
def test_a_body_that_is_not_plain_is_left_to_the_sdk(changes: dict[str, Any]) -> None:
    assert taken(REQUEST | changes, HEADERS) is None


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"7", b"[{}]"])
def test_anything_but_a_request_is_left_to_the_sdk(body: bytes) -> None:
    pairs = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
    assert plain_call({"headers": pairs}, body) is None


def test_a_response_has_the_result_as_text_and_as_structured_content() -> None:
    call = taken(REQUEST | {"id": 'a "name"'}, HEADERS)
    assert call is not None
    response = json.loads(call.response(ToolResult('{"said":"\\"ü\\""}'.encode())))
    assert response["id"] == 'a "name"'
    assert response["result"]["structuredContent"] == {"said": '"ü"'}
    assert json.loads(response["result"]["content"][0]["text"]) == {"said": '"ü"'}


@pytest.mark.parametrize(
    ("meta", "key"),
    [
        ({}, None),
        ({"claudecode/toolUseId": "toolu_01", "callId": "call_1"}, "toolu_01"),
        ({"callId": "call_1"}, "call_1"),
        ({"callId": 7}, None),
        ({"callId": ""}, None),
        ({"callId": "x" * 201}, None),
        ({"callId": "two\nlines"}, None),
    ],
)
def test_the_id_of_a_call_is_read_from_the_metadata_of_known_clients(
    meta: dict[str, Any], key: str | None
) -> None:
    assert call_id(meta) == key
