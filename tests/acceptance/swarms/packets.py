"""The document's own bodies, for tests that vary them."""

from __future__ import annotations

from typing import Any

import httpx2

from tests.client import Client

SWARM = "swarm-abc123"
WORKTREE = "/path/to/worktree"


def register_body(packet_id: int = 1, **changes: object) -> dict[str, Any]:
    return {
        "packet_id": packet_id,
        "packet_name": "backend-api",
        "tasks_total": 10,
        "worktree": WORKTREE,
    } | changes


def progress_body(packet_id: int = 1, **changes: object) -> dict[str, Any]:
    return {
        "packet_id": packet_id,
        "task_id": "task-1",
        "task_name": "Implement authentication",
        "status": "completed",
        "tasks_completed": 1,
        "tasks_total": 10,
        "commit": "abc1234567",
    } | changes


def complete_body(packet_id: int = 1, **changes: object) -> dict[str, Any]:
    return {
        "packet_id": packet_id,
        "final_commit": "def5678901",
        "tests_passed": True,
        "review_passed": True,
    } | changes


def error_body(packet_id: int = 1, **changes: object) -> dict[str, Any]:
    return {
        "packet_id": packet_id,
        "task_id": "task-6",
        "error_type": "test_failure",
        "message": "Authentication tests failed with 3 failures",
        "recoverable": False,
    } | changes


def report(client: Client, name: str, body: object, key: str | None = None) -> httpx2.Response:
    return client.post(f"/swarm/{SWARM}/{name}", body, key)


def accepted(client: Client, name: str, body: object, key: str | None = None) -> dict[str, Any]:
    answer = report(client, name, body, key)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def refused(
    client: Client, name: str, body: object, status: int, key: str | None = None
) -> dict[str, Any]:
    answer = report(client, name, body, key)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    problem: dict[str, Any] = answer.json()
    assert problem["status"] == status
    assert problem["code"]
    return problem


def kinds(client: Client) -> list[str]:
    return [event.kind for event in client.stored_events(SWARM)]


def worker(client: Client, packet_id: int = 1) -> dict[str, Any]:
    (found,) = [w for w in client.status(SWARM)["workers"] if w["packet_id"] == packet_id]
    view: dict[str, Any] = found
    return view
