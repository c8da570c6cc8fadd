"""Plain calls are answered without the SDK, and clients cannot tell the difference."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

from shiftboss.server.mcp.plain_calls import ENVELOPE_REVISIONS, HANDSHAKE_REVISIONS
from shiftboss.server.mcp.tools import TOOLS
from tests.acceptance.mcp.mcp_posts import (
    PLAIN,
    RANKED,
    REVISIONS,
    Answered,
    Poster,
    call_request,
    headers,
)
from tests.running import RunningServer

pytestmark = pytest.mark.requirement("BUS-01")
every_revision = pytest.mark.parametrize("revision", REVISIONS)

WORKER = {"name": "z.ai1"}
PACKET = {"packet_id": 1}
STEP = {"task_id": "task-1", "task_name": "Login", "tasks_total": 2}
USER = {"bead_id": "t-1", "name": "z.ai1", "epoch": 1}
LANDED = {"commit": "a" * 40, "target": "main", "landed_commit": "a" * 40}


def _message(kind: str, **members: object) -> dict[str, Any]:
    payload = members.pop("payload", {})
    head = {"type": kind, "worker_id": "z.ai1", "timestamp": "2026-01-05T10:00:00+00:00"}
    return {"message": {**head, "payload": payload, **members}}


# Every tool, used correctly and incorrectly, in the order of a task's life.
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("poll_task", {"name": "nobody"}),
    ("register_worker", WORKER),
    ("register_worker", WORKER),
    ("register_worker", {"name": "no spaces"}),
    ("register_worker", {}),
    ("register_worker", {"name": 7, "surprise": True}),
    ("poll_task", {**WORKER, "timeout_ms": 0}),
    ("poll_task", {**WORKER, "timeout_ms": -1}),
    ("add_task", {"bead_id": "t-1", "title": "One ü \u2028"}),
    ("find_task", {"bead_id": "nowhere"}),
    ("why_task", {"bead_id": "t-1"}),
    ("add_task", {"bead_id": "t-1", "title": "Another"}),
    ("add_task", {"bead_id": "t-2", "title": "Two", "depends_on": "t-1"}),
    ("add_task", {"bead_id": "t-2", "title": "Two", "depends_on": ["t-1"]}),
    ("add_tasks", {"tasks": [{"bead_id": "t-3", "title": "Three", "depends_on": ["t-2"]}]}),
    ("add_tasks", {"tasks": [{"bead_id": "t-3", "title": "Another"}]}),
    ("submit_task", {"bead_id": "t-1"}),
    ("submit_task", {"bead_id": "t-2"}),
    ("submit_task", {"bead_id": "t-9"}),
    ("poll_task", WORKER),
    ("ack_task", {**WORKER, "bead_id": "t-2"}),
    ("ack_task", {**WORKER, "bead_id": "t-1", "epoch": 9}),
    ("ack_task", {**WORKER, "bead_id": "t-1", "epoch": 1}),
    ("return_task", {**WORKER, "bead_id": "t-2", "epoch": 1}),
    ("heartbeat", {**WORKER, "context_usage": 0.7}),
    ("heartbeat", {**WORKER, "context_usage": 1.5}),
    ("send_message", _message("progress")),
    ("send_message", _message("hello")),
    ("send_message", _message("blocked", payload={"question": "Which port?"})),
    ("send_message", _message("blocked", payload={"question": "Which host?"})),
    ("list_questions", {}),
    ("answer_question", {"question_id": 10_000, "answer": "7432"}),
    ("get_status", {}),
    ("get_status", {"swarm_id": "of-nobody"}),
    ("show_task", {"bead_id": "t-1"}),
    ("worker_done", {"bead_id": "t-2"}),
    ("task_failed", {"bead_id": "t-1", "reason": "Build failed"}),
    ("retry_task", {"bead_id": "t-1"}),
    ("reset_worker", {"worker_name": "z.ai1"}),
    ("reset_worker", {"worker_name": "nobody"}),
    ("cancel_task", {"bead_id": "t-2"}),
    ("submit_task", {"bead_id": "t-2"}),
    ("list_tasks", {"limit": 1}),
    ("swarm_create", {"feature": "Another feature"}),
    ("swarm_register", {**PACKET, "packet_name": "api", "tasks_total": 2, "worktree": "/tree"}),
    ("swarm_register", {**PACKET, "packet_name": "web", "tasks_total": 2, "worktree": "/tree"}),
    ("swarm_progress", {**PACKET, **STEP, "status": "completed", "tasks_completed": 1}),
    ("swarm_progress", {**PACKET, **STEP, "status": "failed", "tasks_completed": 0}),
    ("swarm_progress", {"packet_id": 9, **STEP, "status": "started", "tasks_completed": 0}),
    ("swarm_progress", {**PACKET, **STEP, "status": "completed", "tasks_completed": 3}),
    ("swarm_error", {**PACKET, "task_id": "task-2", "error_type": "x", "message": "m"}),
    (
        "swarm_error",
        {
            **PACKET,
            "task_id": "task-2",
            "error_type": "rate_limit",
            "message": "m",
            "recoverable": True,
        },
    ),
    ("swarm_packet_complete", {**PACKET, "final_commit": "zz"}),
    (
        "swarm_packet_complete",
        {**PACKET, "final_commit": "def5678901", "tests_passed": True, "review_passed": True},
    ),
    ("swarm_progress", {**PACKET, **STEP, "status": "started", "tasks_completed": 2}),
    ("swarm_status", {}),
    ("swarm_spawn_subtask", {"bead_id": "h", "subtask_title": "t", "files": ["a"], "repo": "/no"}),
    ("swarm_complete", {"bead_id": "h"}),
    ("show_handoff", {"bead_id": "h"}),
    ("request_scope", {"bead_id": "h", "paths": ["b.py"], "reason": "needed"}),
    ("dispute_contract", {"bead_id": "h", "kind": "wrong", "reason": "it is"}),
    ("dispute_contract", {"bead_id": "h", "kind": "unfair", "reason": ""}),
    ("list_scope_requests", {}),
    ("who_owns", {"repo": "/no"}),
    ("show_receipt", {"bead_id": "h"}),
    ("show_receipt", {"bead_id": "t-1"}),
    ("export_receipt", {"bead_id": "h"}),
    ("list_receipts", {}),
    ("list_claims", {}),
    ("show_policy", {}),
    ("list_policies", {}),
    ("swarm_plan", {"seed": 1}),
    ("report_milestone", {"bead_id": "h", "line": "WORKING: hard"}),
    ("report_failure", {"bead_id": "h", "message": "it broke"}),
    ("get_ci_instructions", {"bead_id": "h"}),
    ("get_worker_prompt", {"bead_id": "h"}),
    ("can_spawn", {"repo": "none"}),
    ("list_repos", {}),
    ("show_checkpoint", {"bead_id": "h"}),
    ("show_ci", {"bead_id": "h"}),
    ("build_context", {"bead_id": "h"}),
    ("report_usage", {**USER, "input_tokens": 700, "output_tokens": 50, "dollars": 0.25}),
    ("report_usage", {**USER, "epoch": 9}),
    ("set_budget", {"bead_id": "t-1", "tokens": 500}),
    ("set_budget", {"bead_id": "t-1", "tokens": 5000}),
    ("show_usage", {}),
    ("pause_swarm", {"reason": "quota", "until_ms": 4_102_444_800_000}),
    ("park_task", {**USER, "reason": "quota"}),
    ("release_files", {}),
    ("report_run", {"plan_file": "/plan.yaml"}),
    ("report_landed", {"bead_id": "t-1", "commit": "a" * 40, "target": "main"}),
    ("report_landed", {"bead_id": "t-1", **LANDED}),
    ("list_landable", {}),
]
CODES = {
    "counter_regression",
    "forbidden",
    "illegal_transition",
    "invalid_request",
    "not_held",
    "packet_conflict",
    "packet_finished",
    "stale_epoch",
    "swarm_exists",
    "task_ended",
    "task_exists",
    "task_mismatch",
    "unknown_checkpoint",
    "unknown_handoff",
    "unknown_packet",
    "unknown_question",
    "unknown_receipt",
    "unknown_repo",
    "unknown_swarm",
    "unknown_task",
    "unknown_worker",
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """One server for all of them: each test has its own swarms, or changes nothing."""
    running = RunningServer(tmp_path_factory.mktemp("mcp") / "shiftboss.db")
    try:
        yield running.start()
    finally:
        running.close()


def test_the_protocol_revisions_match_the_sdk() -> None:
    assert frozenset(HANDSHAKE_PROTOCOL_VERSIONS) == HANDSHAKE_REVISIONS
    assert frozenset(MODERN_PROTOCOL_VERSIONS) == ENVELOPE_REVISIONS


@every_revision
def test_every_tool_answers_the_same_with_and_without_the_sdk(
    server: RunningServer, revision: str
) -> None:
    plain = _played(server.url, revision, PLAIN, f"plain-{revision}")
    through_sdk = _played(server.url, revision, RANKED, f"sdk-{revision}")
    for (tool, arguments), ours, theirs in zip(CALLS, plain, through_sdk, strict=True):
        assert _neutral(ours.message) == _neutral(theirs.message), (tool, arguments)
        assert (ours.status, ours.content_type) == (200, "application/json")
        if revision in HANDSHAKE_PROTOCOL_VERSIONS:
            assert theirs.content_type == "text/event-stream", "this one was not the SDK's"
    assert {tool for tool, _ in CALLS} == set(TOOLS)
    results = [ours.message["result"] for ours in plain]
    refused = {one["structuredContent"]["code"] for one in results if one["isError"]}
    assert refused == CODES


def _played(url: str, revision: str, accept: str, swarm_id: str) -> list[Answered]:
    """Each path has its own swarm, so that both start from the same state."""
    with Poster(url, revision, accept) as poster:
        poster.call("swarm_create", {"swarm_id": swarm_id})
        return [poster.call(tool, {"swarm_id": swarm_id} | arguments) for tool, arguments in CALLS]


def _neutral(message: Any) -> Any:
    """Without times and swarm ids; JSON texts are compared as JSON."""
    if isinstance(message, dict):
        is_content = message.get("type") == "text"
        return {
            name: json.loads(_neutral(value)) if is_content and name == "text" else _neutral(value)
            for name, value in message.items()
            if name not in ("idle_seconds", "question_id")
        }
    if isinstance(message, list):
        return [_neutral(one) for one in message]
    if isinstance(message, int) and message > 10**12:
        return "a time"
    if isinstance(message, str):
        timeless = re.sub(
            r"\d{4}-\d\d-\d\dT[\d:.]+Z|(?<![\d.])\d{13}(?![\d.])", '"a time"', message
        )
        timeless = re.sub(r'"(idle_seconds|question_id)":\d+', r'"\1":0', timeless)
        return timeless.replace('""a time""', '"a time"').replace("plain-", "sdk-")
    return message


@every_revision
@pytest.mark.parametrize(
    ("tool", "arguments", "changes"),
    [
        ("no_such_tool", {}, {}),
        ("get_status", [], {}),
        ("get_status", {}, {"params": None}),
        ("get_status", {}, {"params": {"name": 7}}),
        ("get_status", {}, {"jsonrpc": "1.0"}),
        ("get_status", {}, {"id": 1.5}),
        ("get_status", {}, {"id": None}),
        ("get_status", {}, {"method": "tools/cancel"}),
        ("get_status", {}, {"id": "a name", "further": 1}),
    ],
)
def test_a_request_that_is_not_a_plain_call_gets_the_sdks_answer(
    server: RunningServer, revision: str, tool: str, arguments: object, changes: dict[str, Any]
) -> None:
    with Poster(server.url, revision, PLAIN) as plain, Poster(server.url, revision, RANKED) as sdk:
        ours = plain.call(tool, arguments, **changes)
        theirs = sdk.call(tool, arguments, **changes)
    assert ours == theirs


@pytest.mark.parametrize(
    "further",
    [
        {"Mcp-Name": "poll_task"},
        {"Mcp-Method": "tools/list"},
        {"MCP-Protocol-Version": "2024-11-05"},
        {"MCP-Protocol-Version": "2099-01-01"},
    ],
)
def test_headers_that_contradict_the_body_are_refused(
    server: RunningServer, further: dict[str, str]
) -> None:
    revision = MODERN_PROTOCOL_VERSIONS[0]
    body = call_request(revision, "get_status", {})
    with Poster(server.url, revision) as poster:
        sent_headers = headers(revision, "get_status") | further
        answered = poster.post(json.dumps(body).encode(), sent_headers)
    # An envelope on a revision without envelopes is not a contradiction.
    assert answered.status == (200 if "2024-11-05" in further.values() else 400)
