"""Errors in requests to the bus are named, and nothing is changed."""

from __future__ import annotations

from typing import Any

import pytest

from tests.acceptance.bus.bus import ask, submitted
from tests.acceptance.bus.bus_calls import refused, snapshot
from tests.client import Client

LONGEST_NAME = "w" * 64
LONGEST_ID = "t" * 128

# operation, body, the invalid field
WRONG: list[tuple[str, object, str]] = [
    *(
        ("register_worker", {"name": name}, "name")
        for name in ("", "-w", ".w", "_w", "w w", "w/x", "wé", "w\n", "w\0", LONGEST_NAME + "w", 7)
    ),
    ("register_worker", {}, "name"),
    ("register_worker", {"name": None}, "name"),
    ("register_worker", {"name": "x", "extra": 1}, "extra"),
    ("register_worker", {"name": "x", "swarm_id": "../x"}, "swarm_id"),
    *(
        ("poll_task", {"name": "w", "timeout_ms": timeout}, "timeout_ms")
        for timeout in (-1, 1.5, 2**53, 1e300, "5", True, None)
    ),
    ("poll_task", {"timeout_ms": 0}, "name"),
    ("ack_task", {"name": "w"}, "bead_id"),
    ("ack_task", {"bead_id": "t"}, "name"),
    *(("ack_task", {"name": "w", "bead_id": "t", "epoch": e}, "epoch") for e in (0, -1, "1", 1.5)),
    ("worker_done", {}, "bead_id"),
    ("worker_done", {"bead_id": ""}, "bead_id"),
    ("worker_done", {"bead_id": "a b"}, "bead_id"),
    ("worker_done", {"bead_id": LONGEST_ID + "t"}, "bead_id"),
    ("worker_done", {"bead_id": "t", "name": "-"}, "name"),
    ("task_failed", {"bead_id": "t", "reason": 7}, "reason"),
    ("task_failed", {"bead_id": "t", "reason": "a\0b"}, "reason"),
    ("task_failed", {"bead_id": "t", "reason": "x" * 20_001}, "reason"),
    ("heartbeat", {"name": "w", "context_usage": 1.1}, "context_usage"),
    ("heartbeat", {"name": "w", "context_usage": -0.1}, "context_usage"),
    ("heartbeat", {"name": "w", "lease_seconds": 4}, "lease_seconds"),
    ("heartbeat", {"name": "w", "lease_seconds": 86_401}, "lease_seconds"),
    ("heartbeat", {"name": "w", "current_step": "x" * 501}, "current_step"),
    ("reset_worker", {"name": "w"}, "worker_name"),
    ("submit_task", {}, "bead_id"),
    ("add_task", {"bead_id": "n"}, "title"),
    ("add_task", {"bead_id": "n", "title": ""}, "title"),
    ("add_task", {"bead_id": "n", "title": "x" * 501}, "title"),
    ("add_task", {"bead_id": "n", "title": "N", "priority": 1001}, "priority"),
    ("add_task", {"bead_id": "n", "title": "N", "priority": "high"}, "priority"),
    ("add_task", {"bead_id": "n", "title": "N", "depends_on": "t"}, "depends_on"),
    ("add_task", {"bead_id": "n", "title": "N", "depends_on": ["t", "a b"]}, "depends_on.1"),
    ("add_task", {"bead_id": "n", "title": "N", "depends_on": ["t"] * 201}, "depends_on"),
    ("add_task", {"bead_id": "n", "title": "N", "depends_on": ["n"]}, "depends_on"),
    ("add_task", {"bead_id": "packet-7", "title": "N"}, "bead_id"),
    ("answer_question", {"question_id": 0, "answer": "x"}, "question_id"),
    ("answer_question", {"question_id": 1}, "answer"),
    ("list_tasks", {"limit": 0}, "limit"),
    ("list_tasks", {"limit": 501}, "limit"),
    ("list_questions", {"only_open": "yes"}, "only_open"),
    ("send_message", {}, "message"),
    ("send_message", {"message": {"type": "shout"}}, "type"),
    ("get_status", [], "body"),
    ("get_status", b"{", "body"),
]
# operation, body, code: valid requests about things that do not exist.
UNKNOWN: list[tuple[str, dict[str, Any], str]] = [
    ("poll_task", {"name": "nobody", "timeout_ms": 0}, "unknown_worker"),
    ("ack_task", {"name": "nobody", "bead_id": "t"}, "unknown_worker"),
    ("heartbeat", {"name": "nobody"}, "unknown_worker"),
    ("reset_worker", {"worker_name": "nobody"}, "unknown_worker"),
    ("submit_task", {"bead_id": "none"}, "unknown_task"),
    ("retry_task", {"bead_id": "none"}, "unknown_task"),
    ("cancel_task", {"bead_id": "none"}, "unknown_task"),
    ("show_task", {"bead_id": "none"}, "unknown_task"),
    ("worker_done", {"bead_id": "none"}, "unknown_task"),
    ("task_failed", {"bead_id": "none"}, "unknown_task"),
    ("answer_question", {"question_id": 1, "answer": "x"}, "unknown_question"),
    *(
        (operation, body | {"swarm_id": "none"}, "unknown_swarm")
        for operation, body in (
            ("register_worker", {"name": "w"}),
            ("poll_task", {"name": "w", "timeout_ms": 0}),
            ("get_status", {}),
            ("list_tasks", {}),
            ("list_questions", {}),
            ("show_task", {"bead_id": "t"}),
            ("submit_task", {"bead_id": "t"}),
            ("add_task", {"bead_id": "t", "title": "T"}),
        )
    ),
]


@pytest.mark.requirement("BUS-02", "BUS-04", "BUS-05", "BUS-06", "BUS-07")
def test_bad_input_is_refused_by_field_and_changes_nothing(any_client: Client) -> None:
    ask(any_client, "register_worker", name="w")
    submitted(any_client, "t")
    before = snapshot(any_client)
    for operation, body, field in WRONG:
        problem = refused(any_client, f"/bus/{operation}", body, 422, "invalid_request")
        assert problem["field"] == field, (operation, body, problem)
    assert snapshot(any_client) == before


@pytest.mark.requirement("BUS-02", "BUS-04", "BUS-06")
def test_unknown_names_on_an_empty_bus_get_a_clear_404(any_client: Client) -> None:
    for operation, body, code in UNKNOWN:
        refused(any_client, f"/bus/{operation}", body, 404, code)
    assert snapshot(any_client) == ([], 0, [], [])


@pytest.mark.requirement("BUS-02", "BUS-04")
def test_names_and_ids_of_the_maximum_length_are_accepted(any_client: Client) -> None:
    for name in (LONGEST_NAME, "0", "a.b-c_d", "z.ai1"):
        assert ask(any_client, "register_worker", name=name)["worker"] == name
    submitted(any_client, LONGEST_ID, "bd-123.2", "a:b")
    assert {task["bead_id"] for task in ask(any_client, "list_tasks")["tasks"]} == {
        LONGEST_ID,
        "bd-123.2",
        "a:b",
    }


@pytest.mark.requirement("BUS-06")
def test_an_invalid_key_or_an_unknown_operation_is_refused(client: Client) -> None:
    body = {"bead_id": "t"}
    problem = refused(client, "/bus/worker_done", body, 422, "invalid_request", "k" * 201)
    assert problem["field"] == "Idempotency-Key"
    refused(client, "/bus/no_such_thing", {}, 404, "unknown_path")
    assert client.get("/bus/get_status").status_code == 405
