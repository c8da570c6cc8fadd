"""Tokens that are limited to a swarm, a task or a worker, and attempts to get around that."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from shiftboss.protocol.fields import Request
from shiftboss.server.mcp.tools import TOOLS
from shiftboss.server.operations.bus import BUS_OPERATIONS
from shiftboss.server.operations.swarms import REPORTS
from tests.in_process import InProcessReply, InProcessServer

pytestmark = pytest.mark.requirement("OWN-06")

AT = "2026-01-05T10:00:00Z"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessServer]:
    """Swarms `own` and `other`, each with the tasks T1 and T2. In `own`, w1 works on T1 and w2 on
    T2; packet 1 is that of `packer`, packet 2 that of `another`."""
    with InProcessServer(tmp_path_factory.mktemp("limits") / "shiftboss.db") as it:
        for swarm in ("own", "other"):
            assert it.post("/swarm/create", {"swarm_id": swarm}).status == 201
            for number in (1, 2):
                it.start_task(swarm, f"T{number}", f"w{number}")
        for number, name in ((1, "packer"), (2, "another")):
            it.post(
                "/swarm/own/register",
                {"packet_id": number, "packet_name": name, "tasks_total": 3, "worktree": "/w"},
            )
        yield it


@pytest.fixture(scope="module")
def of_swarm(server: InProcessServer) -> str:
    return server.create_token("of-swarm", "worker", swarm_id="own")


@pytest.fixture(scope="module")
def of_task(server: InProcessServer) -> str:
    return server.create_token("of-task", "worker", swarm_id="own", bead_id="T1")


@pytest.fixture(scope="module")
def of_worker(server: InProcessServer) -> str:
    return server.create_token("of-worker", "worker", swarm_id="own", worker="w1")


def message(kind: str, worker: str, **members: object) -> dict[str, object]:
    return {"type": kind, "worker_id": worker, "timestamp": AT, "payload": {}} | members


def heartbeat(worker: str, **members: object) -> dict[str, object]:
    return message("heartbeat", worker, context_usage=0.1, current_step=None) | members


def assert_limited(reply: InProcessReply, field: str) -> None:
    assert reply.status == 403, reply
    assert (reply.answer["code"], reply.answer["field"]) == ("forbidden", field)


# -- a swarm


def test_another_swarm_is_refused_wherever_a_request_can_name_it(
    server: InProcessServer, of_swarm: str
) -> None:
    progress = {
        "packet_id": 1,
        "task_id": "a",
        "task_name": "A",
        "status": "started",
        "tasks_completed": 0,
        "tasks_total": 3,
    }
    attempts = [
        server.bus("worker_done", of_swarm, swarm_id="other", bead_id="T1"),
        server.bus("get_status", of_swarm, swarm_id="other"),
        server.bus("get_status", of_swarm, swarm_id="default"),
        server.bus("show_task", of_swarm, swarm_id="other", bead_id="T1"),
        server.bus("list_events", of_swarm, swarm_id="other"),
        server.bus("replay_swarm", of_swarm, swarm_id="other"),
        server.bus("read_log", of_swarm, swarm_id="other", bead_id="T1"),
        server.bus("send_message", of_swarm, swarm_id="other", message=heartbeat("w1")),
        server.post("/messages?swarm_id=other", heartbeat("w1"), of_swarm),
        server.post("/swarm/other/progress", progress, of_swarm),
        server.get("/swarm/other/status", of_swarm),
        server.get("/swarm/other/events?follow=false", of_swarm),
        server.get("/swarm/unknown/events?follow=false", of_swarm),
    ]
    for reply in attempts:
        assert_limited(reply, "swarm_id")


def test_a_request_without_a_swarm_is_about_that_of_the_token(
    server: InProcessServer, of_swarm: str
) -> None:
    assert server.bus("get_status", of_swarm).answer["swarm_id"] == "own"
    assert server.post("/messages", heartbeat("w1"), of_swarm).answer["bead_id"] == "T1"


def test_lists_show_the_own_swarm_alone(server: InProcessServer, of_swarm: str) -> None:
    assert {row["swarm_id"] for row in server.get("/swarms").answer["swarms"]} >= {"own", "other"}
    listed = server.get("/swarms?limit=1", of_swarm).answer
    assert [row["swarm_id"] for row in listed["swarms"]] == ["own"]
    assert listed["next_before"] is None
    places = server.bus("find_task", of_swarm, bead_id="T1").answer["swarms"]
    assert [place["swarm_id"] for place in places] == ["own"]
    assert server.bus("find_task", of_swarm, swarm_id="other", bead_id="T1").status == 403


def test_the_own_swarm_can_be_read_and_worked_on(server: InProcessServer, of_swarm: str) -> None:
    assert server.get("/swarm/own/status", of_swarm).status == 200
    assert b"task_started" in server.get("/swarm/own/events?follow=false", of_swarm).body
    assert server.bus("heartbeat", of_swarm, swarm_id="own", name="w2").status == 200


def test_a_swarm_of_another_name_cannot_be_created(server: InProcessServer) -> None:
    spawner = server.create_token("spawner", "spawner", swarm_id="new")
    assert_limited(server.post("/swarm/create", {"swarm_id": "newer"}, spawner), "swarm_id")
    assert_limited(server.post("/swarm/create?swarm_id=newer", None, spawner), "swarm_id")
    created = server.post("/swarm/create", {}, spawner)
    assert (created.status, created.answer["swarm_id"]) == (201, "new")


# -- a task


def test_another_task_is_refused_wherever_a_request_can_name_it(
    server: InProcessServer, of_task: str
) -> None:
    attempts = [
        server.bus("worker_done", of_task, bead_id="T2"),
        server.bus("task_failed", of_task, bead_id="T2", reason="no"),
        server.bus("ack_task", of_task, name="w2", bead_id="T2"),
        server.bus("heartbeat", of_task, name="w2", bead_id="T2"),
        server.bus("report_milestone", of_task, bead_id="T2", line="WORKING x"),
        server.bus("report_failure", of_task, bead_id="T2", message="no"),
        server.bus("swarm_complete", of_task, bead_id="T2", wait_ms=0),
        server.bus("request_scope", of_task, bead_id="T2", paths=["a"], reason="r"),
        server.bus("dispute_contract", of_task, bead_id="T2", kind="wrong", reason="r"),
        server.bus("report_usage", of_task, bead_id="T2", name="w2", epoch=1),
        server.bus("park_task", of_task, bead_id="T2", name="w2", epoch=1, reason="r"),
        server.bus("show_handoff", of_task, bead_id="T2"),
        server.bus("show_receipt", of_task, bead_id="rcpt-1"),
        server.bus("build_context", of_task, bead_id="T2"),
    ]
    for reply in attempts:
        assert_limited(reply, "bead_id")


def test_the_cards_of_other_tasks_cannot_be_asked_for_by_name(
    server: InProcessServer, of_task: str
) -> None:
    assert_limited(server.bus("list_cards", of_task, bead_ids=["T1", "T2"]), "bead_ids")
    cards = server.bus("list_cards", of_task, bead_ids=["T1"]).answer["cards"]
    assert [card["bead_id"] for card in cards] == ["T1"]


def test_a_message_is_about_the_task_that_its_worker_holds(
    server: InProcessServer, of_task: str
) -> None:
    """It names a worker, and the worker may hold another task than that of the token."""
    complete = {"files_created": [], "files_modified": [], "verification_output": ""}
    bodies: dict[str, dict[str, Any]] = {
        "progress": {},
        "blocked": {"payload": {"question": "Which?"}},
        "context_threshold": {"payload": {"commits": []}},
        "heartbeat": {"context_usage": 0.2, "current_step": None},
    }
    for kind, members in bodies.items():
        body = message(kind, "w2", **members)
        assert_limited(server.post("/messages", body, of_task), "worker_id")
        assert_limited(server.bus("send_message", of_task, message=body), "worker_id")
    for body in (
        message("complete", "w2", task_id="T2", verification_passed=True, **complete),
        message("complete", "w1", task_id="T2", verification_passed=True, **complete),
    ):
        assert_limited(server.post("/messages", body, of_task), "task_id")
        assert_limited(server.bus("send_message", of_task, message=body), "task_id")
    lie = message("complete", "w2", task_id="T1", verification_passed=True, **complete)
    assert_limited(server.post("/messages", lie, of_task), "worker_id")
    assert server.bus("show_task", bead_id="T2", swarm_id="own").answer["status"] == "active"
    assert server.post("/messages", heartbeat("w1"), of_task).answer["bead_id"] == "T1"


def test_a_token_for_a_task_takes_no_other_task(server: InProcessServer, of_task: str) -> None:
    for reply in (
        server.bus("poll_task", of_task, name="w1", timeout_ms=0),
        server.bus("register_worker", of_task, name="w9"),
    ):
        assert_limited(reply, "Authorization")
    for report in ("worker_done", "task_failed"):
        reply = server.bus(report, of_task, bead_id="T1", name="w1", poll=True, timeout_ms=0)
        assert_limited(reply, "poll")
    assert server.bus("show_task", bead_id="T1", swarm_id="own").answer["status"] == "active"


def test_a_heartbeat_without_a_task_renews_the_task_of_the_token(
    server: InProcessServer, of_task: str
) -> None:
    assert server.bus("heartbeat", of_task, name="w1").answer["bead_id"] == "T1"
    refusal = server.bus("heartbeat", of_task, name="w2")
    assert (refusal.status, refusal.code) == (409, "task_mismatch"), "w2 holds T2"


def test_a_packet_is_a_task(server: InProcessServer) -> None:
    token = server.create_token("of-packet", "worker", swarm_id="own", bead_id="packet-1")
    report = {"final_commit": "a" * 40, "tests_passed": True, "review_passed": True}
    assert_limited(
        server.post("/swarm/own/complete", report | {"packet_id": 2}, token), "packet_id"
    )
    error = {"task_id": "a", "error_type": "x", "message": "m", "recoverable": False}
    assert_limited(server.post("/swarm/own/error", error | {"packet_id": 2}, token), "packet_id")
    arguments = report | {"packet_id": 2, "swarm_id": "own"}
    mcp = _tool(server, token, "swarm_packet_complete", arguments)
    assert (mcp["code"], mcp["field"]) == ("forbidden", "packet_id")
    progress = {"task_id": "a", "task_name": "A", "status": "started", "tasks_completed": 0}
    body = progress | {"packet_id": 1, "tasks_total": 3}
    assert server.post("/swarm/own/progress", body, token).status == 200


# -- a worker


def test_another_worker_is_refused_wherever_a_request_can_name_it(
    server: InProcessServer, of_worker: str
) -> None:
    for reply in (
        server.bus("worker_done", of_worker, bead_id="T2", name="w2"),
        server.bus("ack_task", of_worker, name="w2", bead_id="T2"),
        server.bus("poll_task", of_worker, name="w2", timeout_ms=0),
        server.bus("register_worker", of_worker, name="w3"),
        server.bus("heartbeat", of_worker, name="w2"),
        server.bus("park_task", of_worker, bead_id="T2", name="w2", epoch=1, reason="r"),
    ):
        assert_limited(reply, "name")
    assert_limited(server.post("/messages", heartbeat("w2"), of_worker), "worker_id")
    assert_limited(server.bus("send_message", of_worker, message=heartbeat("w2")), "worker_id")
    assert_limited(server.bus("send_message", of_worker, message={"type": "x"}), "worker_id")


def test_a_report_without_a_worker_is_that_of_the_token(
    server: InProcessServer, of_worker: str
) -> None:
    """With other tokens, a caller that leaves the name out ends the task of any worker."""
    for operation in ("worker_done", "task_failed"):
        refusal = server.bus(operation, of_worker, bead_id="T2")
        assert (refusal.status, refusal.code) == (409, "not_held"), refusal
    assert server.bus("show_task", bead_id="T2", swarm_id="own").answer["status"] == "active"


def test_the_packet_of_another_worker_is_refused(server: InProcessServer) -> None:
    token = server.create_token("packer", "worker", swarm_id="own", worker="packer")
    progress: dict[str, Any] = {
        "task_id": "a",
        "task_name": "A",
        "status": "started",
        "tasks_completed": 0,
        "tasks_total": 3,
    }
    for headers in ({}, {"idempotency_key": "k1"}):
        body = progress | {"packet_id": 2}
        assert_limited(server.post("/swarm/own/progress", body, token, **headers), "packet_id")
    other = {"packet_id": 9, "packet_name": "nine", "tasks_total": 1, "worktree": "/w"}
    assert_limited(server.post("/swarm/own/register", other, token), "packet_name")
    assert server.post("/swarm/own/progress", progress | {"packet_id": 1}, token).status == 200


def test_a_verifier_that_is_limited_cannot_be_another_one(server: InProcessServer) -> None:
    token = server.create_token("v1", "verifier", worker="v1")
    job = {"bead_id": "T1", "claim_id": 1, "swarm_id": "own"}
    assert_limited(server.operator("take_claim", token, verifier="v2", wait_ms=0), "verifier")
    assert_limited(server.operator("renew_claim", token, verifier="v2", **job), "verifier")
    refusal = server.operator("report_verdict", token, verifier="v2", failure="f", **job)
    assert_limited(refusal, "verifier")
    assert server.operator("take_claim", token, verifier="v1", wait_ms=0).answer == {"job": None}


# -- all of it


def _tool(server: InProcessServer, token: str, name: str, arguments: dict[str, Any]) -> Any:
    call = {"name": name, "arguments": arguments}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    reply = server.post("/mcp", body, token, accept="application/json, text/event-stream")
    return reply.answer["result"]["structuredContent"]


def test_tools_are_limited_like_requests(
    server: InProcessServer, of_swarm: str, of_task: str, of_worker: str
) -> None:
    for token, arguments, field in (
        (of_swarm, {"swarm_id": "other", "bead_id": "T1"}, "swarm_id"),
        (of_task, {"bead_id": "T2"}, "bead_id"),
        (of_worker, {"bead_id": "T2", "name": "w2"}, "name"),
    ):
        refusal = _tool(server, token, "worker_done", arguments)
        assert (refusal["code"], refusal["field"]) == ("forbidden", field)
    assert _tool(server, of_task, "show_task", {"bead_id": "T1"})["swarm_id"] == "own"
    assert _tool(server, of_swarm, "swarm_status", {"swarm_id": "other"})["code"] == "forbidden"


# What a request may name beside the swarm, the task and the worker, and why that gives no way out.
_HARMLESS = {
    "of the own swarm, and only for roles that are not limited to a task or a worker": "question_id"
    " depends_on dependencies_completed epic_id merges token_id workers tasks",
    "checked by `authorization.py` itself: a token for a task cannot poll": "poll ack",
    "positions in lists of the own swarm, or of lists that are filtered": "after before limit"
    " only_open as_of at kinds tail shared",
    "limited to the own swarm by the service": "all_swarms",
    "files and repositories, which belong to no swarm": "repo files files_readonly paths plan_ref"
    " plan_file base branch target landed_as worktree",
    "words and numbers about the task that is named": "title description priority reason answer"
    " summary line report returns decisions message error_type tool operation evidence commit"
    " landed_commit kind epoch claim_id version contract_version process input_tokens output_tokens"
    " cached_tokens dollars run tokens cost until_ms checkpoint context_usage current_step"
    " lease_seconds timeout_ms wait_ms waiting seed goal max_tokens files_touched feature"
    " manifest_path auto_merge notify_on_complete workers_expected subtask_title"
    " subtask_description epic_summary strategy success_criteria blocked_contact policy traits"
    " landing review held_out submit expires_in_seconds",
    "of a packet: its steps, and what is claimed": "task_id task_name status tasks_completed"
    " tasks_total final_commit tests_passed review_passed recoverable",
}
_CHECKED = frozenset(
    ["swarm_id", "bead_id", "bead_ids", "packet_id", "packet_name", "name", "worker_name"]
)


def test_every_member_of_a_request_was_looked_at() -> None:
    """A new one may be another way to name a task: decide, and check it in `authorization.py`."""
    types: set[type[Request]] = {operation.request for operation in BUS_OPERATIONS.values()}
    types |= {report.request for report in REPORTS.values()}
    types |= {tool.request for tool in TOOLS.values()}
    members = {name for request in types for name in request.model_fields}
    harmless = {name for names in _HARMLESS.values() for name in names.split()}
    assert members - harmless - _CHECKED == set()
    assert harmless <= members, "no longer needed"


@pytest.mark.requirement("OWN-04")
def test_what_has_happened_to_other_tasks_is_not_told(
    server: InProcessServer, of_task: str
) -> None:
    events = server.bus("list_events", of_task).answer["events"]
    assert {event["bead_id"] for event in events} == {"T1"}
    replayed = server.bus("replay_swarm", of_task).answer
    assert [task["bead_id"] for task in replayed["tasks"]] == ["T1"]
    assert {worker.get("task") for worker in replayed["workers"]} == {"T1"}
    for operation in ("list_events", "list_task_claims", "show_diff", "read_log", "replay_swarm"):
        assert_limited(server.bus(operation, of_task, bead_id="T2"), "bead_id")
    for operation in ("list_task_claims", "read_log"):
        assert server.bus(operation, of_task, bead_id="T1").status == 200
