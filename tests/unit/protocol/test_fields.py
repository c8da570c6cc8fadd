"""Every limit of the four reports, on both sides."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from shiftboss.protocol.fields import Request, is_swarm_id
from shiftboss.protocol.packets import (
    CompleteRequest,
    ErrorRequest,
    ProgressRequest,
    RegisterRequest,
)
from shiftboss.protocol.problems import invalid_request

REGISTER: dict[str, Any] = {
    "packet_id": 1,
    "packet_name": "backend-api",
    "tasks_total": 10,
    "worktree": "/path/to/worktree",
}
PROGRESS: dict[str, Any] = {
    "packet_id": 1,
    "task_id": "task-1",
    "task_name": "Implement authentication",
    "status": "completed",
    "tasks_completed": 1,
    "tasks_total": 10,
    "commit": "abc1234567",
}
COMPLETE: dict[str, Any] = {
    "packet_id": 1,
    "final_commit": "def5678901",
    "tests_passed": True,
    "review_passed": True,
}
ERROR: dict[str, Any] = {
    "packet_id": 1,
    "task_id": "task-6",
    "error_type": "test_failure",
    "message": "Authentication tests failed with 3 failures",
    "recoverable": False,
}
CASES: list[tuple[type[Request], dict[str, Any]]] = [
    (RegisterRequest, REGISTER),
    (ProgressRequest, PROGRESS),
    (CompleteRequest, COMPLETE),
    (ErrorRequest, ERROR),
]

ACCEPTED: list[tuple[type[Request], dict[str, Any], dict[str, Any]]] = [
    (RegisterRequest, REGISTER, {"packet_id": 2**53 - 1}),
    (RegisterRequest, REGISTER, {"packet_name": "0-9-a-z"}),
    (RegisterRequest, REGISTER, {"tasks_total": 1}),
    (RegisterRequest, REGISTER, {"tasks_total": 1000}),
    (RegisterRequest, REGISTER, {"worktree": "/"}),
    (RegisterRequest, REGISTER, {"worktree": "/a b/ü/..c"}),
    (ProgressRequest, PROGRESS, {"status": "started", "tasks_completed": 0}),
    (ProgressRequest, PROGRESS, {"status": "failed"}),
    (ProgressRequest, PROGRESS, {"tasks_completed": 10}),
    (ProgressRequest, PROGRESS, {"commit": None}),
    (ProgressRequest, PROGRESS, {"commit": "a" * 7}),
    (ProgressRequest, PROGRESS, {"commit": "0" * 40}),
    (CompleteRequest, COMPLETE, {"final_commit": "f" * 40, "tests_passed": False}),
    (ErrorRequest, ERROR, {"error_type": "x" * 100}),
    (ErrorRequest, ERROR, {"message": "ü" * 5000}),
    (ErrorRequest, ERROR, {"message": ""}),
    (ErrorRequest, ERROR, {"message": "line\nline\ttab"}),
]

REFUSED: list[tuple[type[Request], dict[str, Any], str, Any]] = [
    (RegisterRequest, REGISTER, "packet_id", 0),
    (RegisterRequest, REGISTER, "packet_id", -1),
    (RegisterRequest, REGISTER, "packet_id", 2**53),
    (RegisterRequest, REGISTER, "packet_id", 10**400),
    (RegisterRequest, REGISTER, "packet_id", "1"),
    (RegisterRequest, REGISTER, "packet_id", 1.0),
    (RegisterRequest, REGISTER, "packet_id", True),
    (RegisterRequest, REGISTER, "packet_id", float("nan")),
    (RegisterRequest, REGISTER, "packet_id", float("inf")),
    (RegisterRequest, REGISTER, "packet_id", None),
    (RegisterRequest, REGISTER, "packet_name", ""),
    (RegisterRequest, REGISTER, "packet_name", "Backend"),
    (RegisterRequest, REGISTER, "packet_name", "a_b"),
    (RegisterRequest, REGISTER, "packet_name", "a b"),
    (RegisterRequest, REGISTER, "packet_name", "../../x"),
    (RegisterRequest, REGISTER, "packet_name", "a\n"),
    (RegisterRequest, REGISTER, "packet_name", "a\0"),
    (RegisterRequest, REGISTER, "packet_name", "ü"),
    (RegisterRequest, REGISTER, "packet_name", "a" * 101),
    (RegisterRequest, REGISTER, "tasks_total", 0),
    (RegisterRequest, REGISTER, "tasks_total", 1001),
    (RegisterRequest, REGISTER, "worktree", ""),
    (RegisterRequest, REGISTER, "worktree", "relative/path"),
    (RegisterRequest, REGISTER, "worktree", "./path"),
    (RegisterRequest, REGISTER, "worktree", "~/path"),
    (RegisterRequest, REGISTER, "worktree", "/path/../etc"),
    (RegisterRequest, REGISTER, "worktree", "C:\\work\\tree"),
    (RegisterRequest, REGISTER, "worktree", "/a\0b"),
    (RegisterRequest, REGISTER, "worktree", "/" + "a" * 4096),
    (ProgressRequest, PROGRESS, "task_id", ""),
    (ProgressRequest, PROGRESS, "task_id", "a\0"),
    (ProgressRequest, PROGRESS, "task_id", "a" * 201),
    (ProgressRequest, PROGRESS, "task_name", 5),
    (ProgressRequest, PROGRESS, "status", "done"),
    (ProgressRequest, PROGRESS, "status", "Completed"),
    (ProgressRequest, PROGRESS, "tasks_completed", 11),
    (ProgressRequest, PROGRESS, "tasks_completed", -1),
    (ProgressRequest, PROGRESS, "tasks_total", 1001),
    (ProgressRequest, PROGRESS, "commit", "abc123"),
    (ProgressRequest, PROGRESS, "commit", "a" * 41),
    (ProgressRequest, PROGRESS, "commit", "ABC1234"),
    (ProgressRequest, PROGRESS, "commit", "abc1234\n"),
    (ProgressRequest, PROGRESS, "commit", "ghijklm"),
    (CompleteRequest, COMPLETE, "final_commit", None),
    (CompleteRequest, COMPLETE, "final_commit", "abc123"),
    (CompleteRequest, COMPLETE, "tests_passed", "true"),
    (CompleteRequest, COMPLETE, "review_passed", 1),
    (ErrorRequest, ERROR, "error_type", ""),
    (ErrorRequest, ERROR, "error_type", "x" * 101),
    (ErrorRequest, ERROR, "message", "x" * 5001),
    (ErrorRequest, ERROR, "message", "a\0b"),
    (ErrorRequest, ERROR, "recoverable", "no"),
]


@pytest.mark.requirement("SW-06")
@pytest.mark.parametrize(("model", "body"), CASES)
def test_the_requests_of_the_document_are_accepted(
    model: type[Request], body: dict[str, Any]
) -> None:
    assert model.model_validate_json(json.dumps(body)).model_dump() == body


@pytest.mark.requirement("SW-06")
@pytest.mark.parametrize(("model", "body", "change"), ACCEPTED)
def test_values_just_inside_a_limit_are_accepted(
    model: type[Request], body: dict[str, Any], change: dict[str, Any]
) -> None:
    parsed = model.model_validate_json(json.dumps(body | change))
    assert parsed.model_dump() == body | change


@pytest.mark.requirement("SW-06")
@pytest.mark.parametrize(("model", "body", "field", "value"), REFUSED)
def test_values_just_outside_a_limit_are_refused_by_name(
    model: type[Request], body: dict[str, Any], field: str, value: Any
) -> None:
    with pytest.raises(ValidationError) as caught:
        model.model_validate_json(json.dumps(body | {field: value}))
    assert invalid_request(caught.value).field == field


@pytest.mark.requirement("SW-06")
@pytest.mark.parametrize(("model", "body"), CASES)
def test_unknown_and_missing_members_are_refused_by_name(
    model: type[Request], body: dict[str, Any]
) -> None:
    with pytest.raises(ValidationError) as caught:
        model.model_validate_json(json.dumps(body | {"surprise": 1}))
    assert invalid_request(caught.value).field == "surprise"
    for field in body.keys() - {"commit"}:
        with pytest.raises(ValidationError) as caught:
            model.model_validate_json(json.dumps({k: v for k, v in body.items() if k != field}))
        assert invalid_request(caught.value).field == field


@pytest.mark.requirement("SW-06")
@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"null", b'"x"', b"\xff\xfe", b'{"packet_id": NaN}', b"[" * 5000]
)
def test_anything_but_a_json_object_is_refused(body: bytes) -> None:
    with pytest.raises(ValidationError) as caught:
        RegisterRequest.model_validate_json(body)
    assert invalid_request(caught.value).field in {"body", "packet_id"}


@pytest.mark.parametrize("text", ["swarm-abc123", "a", "A.b_c-9", "a" * 128])
def test_valid_swarm_ids(text: str) -> None:
    assert is_swarm_id(text)


@pytest.mark.parametrize(
    "text", ["", "a/b", "../x", ".hidden", "-a", "a b", "a\n", "a\0", "ü", "a" * 129]
)
def test_invalid_swarm_ids(text: str) -> None:
    assert not is_swarm_id(text)
