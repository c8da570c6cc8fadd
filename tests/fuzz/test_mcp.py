"""Hostile messages for MCP: an answer that says what is wrong, and nothing is changed."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.acceptance.mcp.mcp_posts import PLAIN, REVISIONS, call_request, headers
from tests.client import ANSWER_SECONDS, Client
from tests.fuzz.hostile import EXAMPLES, SCALARS, as_bytes, hostile, json_values
from tests.running import RunningServer

pytestmark = pytest.mark.requirement("BUS-01")

REVISION = REVISIONS[-1]
# Without those that wait: nobody is there to answer.
TOOLS = ("register_worker", "ack_task", "worker_done", "add_task", "submit_task", "send_message")
MEMBERS = ("name", "bead_id", "epoch", "title", "swarm_id", "files", "priority", "depends_on")
METHODS = ("initialize", "ping", "tools/list", "tools/call", "resources/read", "prompts/get", "x")
ARGUMENTS = st.dictionaries(st.sampled_from(MEMBERS), json_values(), max_size=4)


class HostileClient:
    def __init__(self, server: RunningServer) -> None:
        self._server = server
        self._client = Client(server.url)
        self._http = httpx2.Client(base_url=server.url, timeout=ANSWER_SECONDS, trust_env=False)
        self._client.post("/bus/register_worker", {"name": "honest"})

    def send(self, body: bytes, tool: str = "get_status") -> None:
        before = self._events()
        answer = self._http.post(
            "/mcp", content=body, headers={"Accept": PLAIN, **headers(REVISION, tool)}
        )
        assert answer.status_code < 500, (answer.status_code, answer.text[:500], body[:500])
        if not _is_success(answer.text):
            assert self._events() == before, "a refused message has changed something"

    def _events(self) -> int:
        return len(self._client.stored_events("default"))

    def close(self) -> None:
        self._http.close()
        self._client.close()
        assert "Traceback" not in self._server.log


def _is_success(text: str) -> bool:
    line = next((line[6:] for line in text.splitlines() if line.startswith("data: ")), text)
    try:
        message = json.loads(line)
    except ValueError:
        return False
    result = message.get("result") if isinstance(message, dict) else None
    return isinstance(result, dict) and not result.get("isError")


def test_hostile_arguments_of_a_tool_are_refused_or_used(server: RunningServer) -> None:
    client = HostileClient(server)

    @settings(max_examples=EXAMPLES * 2)
    @given(st.sampled_from(TOOLS), ARGUMENTS)
    def call(tool: str, arguments: dict[str, Any]) -> None:
        client.send(json.dumps(call_request(REVISION, tool, arguments)).encode(), tool)

    call()
    client.close()


def test_hostile_protocol_messages_are_refused_or_answered(server: RunningServer) -> None:
    client = HostileClient(server)
    seed = json.dumps(call_request(REVISION, "get_status", {}))
    message = st.fixed_dictionaries(
        {},
        optional={
            "jsonrpc": st.one_of(st.just("2.0"), SCALARS),
            "id": SCALARS,
            "method": st.one_of(st.sampled_from(METHODS), SCALARS),
            "params": json_values(),
        },
    ).map(json.dumps)

    @settings(max_examples=EXAMPLES * 2)
    @given(st.one_of(message, hostile([seed])))
    def post(text: str) -> None:
        client.send(as_bytes(text))

    post()
    client.close()
