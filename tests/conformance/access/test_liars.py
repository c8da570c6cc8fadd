"""Holders of limited tokens who try to get around their limits with tricks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.in_process import InProcessServer

pytestmark = pytest.mark.requirement("OWN-06")

AT = "2026-01-05T10:00:00Z"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessServer]:
    """Swarms `own` and `other`. In both, w1 works on T1 and w2 on T2, and `done` is done by w1."""
    with InProcessServer(tmp_path_factory.mktemp("liars") / "shiftboss.db") as it:
        for swarm in ("own", "other"):
            it.post("/swarm/create", {"swarm_id": swarm})
            for task, worker in (("done", "w1"), ("T1", "w1"), ("T2", "w2")):
                it.start_task(swarm, task, worker)
                if task == "done":
                    _report_usage(it, swarm, None, "w1", 7.0)
                    it.bus("worker_done", swarm_id=swarm, bead_id=task, name=worker)
        yield it


def _report_usage(
    server: InProcessServer, swarm: str, token: str | None, worker: str, dollars: float
) -> int:
    members = {"bead_id": "done", "name": worker, "epoch": 1, "dollars": dollars}
    return server.bus("report_usage", token, swarm_id=swarm, **members).status


@pytest.fixture(scope="module")
def of_swarm(server: InProcessServer) -> str:
    return server.create_token("of-swarm", "worker", swarm_id="own")


@pytest.fixture(scope="module")
def of_task(server: InProcessServer) -> str:
    return server.create_token("of-task", "worker", swarm_id="own", bead_id="T2")


@pytest.fixture(scope="module")
def of_worker(server: InProcessServer) -> str:
    return server.create_token("of-worker", "worker", swarm_id="own", worker="w2")


def message(kind: object, worker: str, **members: object) -> dict[str, object]:
    return {"type": kind, "worker_id": worker, "timestamp": AT, "payload": {}} | members


@pytest.mark.parametrize(
    "path",
    [
        "/swarm/own/../other/status",
        "/swarm/own%2F..%2Fother/status",
        "/swarm/other%2Fstatus",
        "//swarm/other/status",
        "/swarm/other/status/",
        "/swarm/other/status?swarm_id=own",
        "/swarm/OTHER/status",
        "/swarm/other/events?follow=false&swarm_id=own",
    ],
)
def test_no_spelling_of_a_path_leads_to_another_swarm(
    server: InProcessServer, of_swarm: str, path: str
) -> None:
    assert server.get(path, of_swarm).status in (403, 404)


@pytest.mark.parametrize("swarm", [None, "", "*", "OWN", "own ", "own\n", "other", ["own"], True])
def test_no_spelling_of_a_swarm_widens_a_list(
    server: InProcessServer, of_swarm: str, swarm: object
) -> None:
    for operation in ("list_tasks", "list_questions", "list_receipts", "find_task", "show_usage"):
        members = {"bead_id": "T1"} if operation == "find_task" else {}
        reply = server.bus(operation, of_swarm, swarm_id=swarm, **members)
        assert reply.status in (403, 422), reply


def test_of_a_member_that_comes_twice_one_value_is_checked_and_used(
    server: InProcessServer, of_swarm: str
) -> None:
    query = "/messages?swarm_id={}&swarm_id={}"
    body = message("heartbeat", "w1", context_usage=0.1, current_step=None)
    statuses = [
        server.post(query.format(*pair), body, of_swarm).status
        for pair in (("own", "other"), ("other", "own"))
    ]
    assert 403 in statuses
    for first, last in (("own", "other"), ("other", "own")):
        text = f'{{"bead_id": "T1", "swarm_id": "{first}", "swarm_id": "{last}"}}'
        reply = server.post("/bus/show_task", text.encode(), of_swarm)
        assert reply.status == 403 or reply.answer["swarm_id"] == "own", reply


@pytest.mark.parametrize(
    "task", [" T2", "t2", "T2 ", "T2\n", "T2\u200b", "T2/../T1", "own/T1", ["T2", "T1"], None, "T1"]
)
def test_no_spelling_of_a_task_is_another_task(
    server: InProcessServer, of_task: str, task: object
) -> None:
    for operation in ("show_task", "worker_done", "task_failed", "show_handoff", "find_task"):
        assert server.bus(operation, of_task, bead_id=task).status in (403, 422)


@pytest.mark.parametrize("kind", ["assign", "ASSIGN", " assign", ["assign"], None, {"a": 1}])
def test_no_spelling_of_a_type_gets_a_worker_to_assign_tasks(
    server: InProcessServer, of_swarm: str, kind: object
) -> None:
    body = message(kind, "w1", task_id="T1", spec_path="a", worktree="/w")
    assert server.bus("send_message", of_swarm, message=body).status in (403, 422)
    assert server.post("/messages", body, of_swarm).status in (403, 422)


def test_the_key_of_anothers_request_gets_neither_its_answer_nor_its_effect(
    server: InProcessServer, of_worker: str
) -> None:
    reader = server.create_token("reader", "read-only", swarm_id="own")
    task = {"swarm_id": "own", "bead_id": "new", "title": "New"}
    assert server.post("/bus/add_task", task, idempotency_key="k1").status == 200
    assert server.post("/bus/add_task", task, reader, idempotency_key="k1").status == 403
    progress = message("progress", "w1")
    sent = server.post("/messages?swarm_id=own", progress, idempotency_key="k2")
    assert sent.status == 200
    stolen = server.post("/messages", progress, of_worker, idempotency_key="k2")
    assert (stolen.status, stolen.answer["field"]) == (403, "worker_id")
    own = server.post("/messages", message("progress", "w2"), of_worker, idempotency_key="k2")
    assert own.answer["bead_id"] == "T2"


def test_the_answer_to_anothers_question_is_not_taken_away(
    server: InProcessServer, of_worker: str
) -> None:
    blocked = message("blocked", "w1", payload={"question": "Which?"})
    asked = server.post("/messages?swarm_id=own", blocked).answer["question_id"]
    server.bus("answer_question", swarm_id="own", question_id=asked, answer="This.")
    heard = message("progress", "w2", payload={"heard": asked})
    server.post("/messages", heard, of_worker)
    polled = server.bus("poll_task", of_worker, name="w2", timeout_ms=0).answer
    assert not polled.get("answers")
    polled = server.bus("poll_task", swarm_id="own", name="w1", timeout_ms=0).answer
    assert [answer["question_id"] for answer in polled["answers"]] == [asked]


def test_what_another_worker_has_spent_is_not_changed_after_its_task_has_ended(
    server: InProcessServer, of_worker: str, of_task: str
) -> None:
    """It could be set to nothing."""
    assert _report_usage(server, "own", of_worker, "w1", 0.0) == 403
    assert _report_usage(server, "own", of_task, "w1", 0.0) == 403
    assert _report_usage(server, "own", of_worker, "w2", 0.0) == 409
    assert server.bus("show_usage", swarm_id="own").answer["swarm"]["dollars"] == 7.0
    assert _report_usage(server, "own", None, "w1", 7.5) == 200, "its worker may, when it has ended"


def test_a_verdict_counts_only_from_the_verifier_that_has_the_claim(
    server: InProcessServer,
) -> None:
    verifier = server.create_token("v1", "verifier", worker="v1")
    claim = {"verifier": "v1", "swarm_id": "own", "bead_id": "T1", "claim_id": 1}
    assert server.operator("renew_claim", verifier, **claim).answer == {"held": False}
    verdict = server.operator("report_verdict", verifier, failure="no", **claim)
    assert verdict.answer["recorded"] is False


def test_other_methods_of_mcp_show_nothing_of_the_swarms(
    server: InProcessServer, of_task: str
) -> None:
    accept = "application/json, text/event-stream"
    for method in ("resources/list", "prompts/list", "resources/templates/list"):
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {}}
        reply = server.post("/mcp", body, of_task, accept=accept)
        assert b":[]}" in reply.body, reply
    call = {"name": "cancel_task", "arguments": {"bead_id": "T1", "swarm_id": "own"}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    assert (
        server.run(server.send("POST", "/mcp", [body], of_task, {"accept": accept})).status == 400
    )
    assert server.bus("show_task", swarm_id="own", bead_id="T1").answer["status"] == "active"
