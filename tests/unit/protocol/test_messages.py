"""Messages survive a round trip through JSON, and nothing else is accepted."""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shiftboss.errors import InvalidRequest
from shiftboss.protocol.messages import (
    MESSAGE_FORMS,
    AssignMessage,
    CompleteMessage,
    FailedMessage,
    HeartbeatMessage,
    Message,
    MessageType,
    message_from_json,
    message_to_json,
)
from shiftboss.rules.tasks.message_payloads import all_commits, with_commit
from tests.conformance.store.rows import assignment

pytestmark = pytest.mark.requirement("WP-01")

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
# ISO 8601 writes offsets in whole minutes.
OFFSETS = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
TIMES = st.datetimes(timezones=st.none() | OFFSETS)
JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
PAYLOADS = st.dictionaries(TEXTS, JSON_VALUES, max_size=4)
BASE = {"worker_id": TEXTS, "timestamp": TIMES, "payload": PAYLOADS}
FILES = st.lists(TEXTS, max_size=3)
MEMBERS: dict[type[Message], dict[str, st.SearchStrategy[Any]]] = {
    Message: {},
    AssignMessage: {
        "task_id": TEXTS,
        "spec_path": TEXTS,
        "worktree_path": TEXTS,
        "timeout_seconds": st.integers(),
    },
    HeartbeatMessage: {
        "context_usage": st.floats(0.0, 1.0),
        "current_step": st.none() | TEXTS,
    },
    CompleteMessage: {
        "task_id": TEXTS,
        "files_created": FILES,
        "files_modified": FILES,
        "verification_passed": st.booleans(),
        "verification_output": TEXTS,
    },
    FailedMessage: {
        "task_id": TEXTS,
        "error": TEXTS,
        "recoverable": st.booleans(),
        "checkpoint_path": st.none() | TEXTS,
    },
}


def messages_of(kind: MessageType) -> st.SearchStrategy[Message]:
    form = MESSAGE_FORMS[kind]
    return st.builds(form, type=st.just(kind), **BASE, **MEMBERS[form])


MESSAGES = st.sampled_from(MessageType).flatmap(messages_of)


def example(kind: MessageType) -> dict[str, Any]:
    """A valid message of each type, as JSON."""
    members: dict[str, Any] = {
        "task_id": "task-1",
        "spec_path": "specs/task-1.md",
        "worktree_path": "/w",
        "timeout_seconds": 60,
        "context_usage": 0.5,
        "current_step": None,
        "files_created": ["a.py"],
        "files_modified": [],
        "verification_passed": True,
        "verification_output": "ok",
        "error": "boom",
        "recoverable": True,
        "checkpoint_path": None,
    }
    base = {"type": kind.value, "worker_id": "w1", "timestamp": "2026-01-05T08:00:00Z"}
    names = {field.name for field in fields(MESSAGE_FORMS[kind])}
    return {**base, "payload": {}} | {k: v for k, v in members.items() if k in names}


def refusal(body: object) -> InvalidRequest:
    text = body if isinstance(body, str) else json.dumps(body)
    with pytest.raises(InvalidRequest) as caught:
        message_from_json(text)
    return caught.value


def test_the_types_and_payloads_are_those_of_the_document() -> None:
    assert [kind.value for kind in MessageType] == [
        "assign",
        "heartbeat",
        "progress",
        "complete",
        "failed",
        "blocked",
        "context_threshold",
    ]
    base = ["type", "worker_id", "timestamp", "payload"]
    assert [field.name for field in fields(Message)] == base
    for form, members in MEMBERS.items():
        assert [field.name for field in fields(form)] == [*base, *members]


@given(MESSAGES)
def test_a_message_survives_a_round_trip_through_json(message: Message) -> None:
    back = message_from_json(message_to_json(message))
    assert type(back) is type(message)
    assert back == message
    assert back.timestamp.utcoffset() == message.timestamp.utcoffset()
    assert repr(asdict(back)["payload"]) == repr(asdict(message)["payload"])
    assert message_to_json(back) == message_to_json(message)


@pytest.mark.parametrize("kind", MessageType)
def test_the_json_of_every_type_is_plain_and_readable(kind: MessageType) -> None:
    message = message_from_json(json.dumps(example(kind)))
    assert message.type is kind
    assert type(message) is MESSAGE_FORMS[kind]
    assert message.timestamp == datetime(2026, 1, 5, 8, tzinfo=UTC)
    data = json.loads(message_to_json(message))
    assert data.pop("timestamp") == "2026-01-05T08:00:00+00:00"
    assert data == {k: v for k, v in example(kind).items() if k != "timestamp"}


@pytest.mark.parametrize("kind", MessageType)
def test_a_missing_member_is_named(kind: MessageType) -> None:
    for name in example(kind):
        body = {k: v for k, v in example(kind).items() if k != name}
        assert refusal(body).field == name


@pytest.mark.parametrize("kind", MessageType)
def test_a_member_of_another_type_is_named(kind: MessageType) -> None:
    for name in example(kind):
        wrong: object = "text" if name == "payload" else {"not": "this"}
        assert refusal(example(kind) | {name: wrong}).field == name


@pytest.mark.parametrize("kind", MessageType)
def test_an_unknown_member_is_named(kind: MessageType) -> None:
    assert refusal(example(kind) | {"extra": 1}).field == "extra"


@pytest.mark.parametrize(
    ("kind", "member", "value"),
    [
        (MessageType.HEARTBEAT, "context_usage", "0.5"),
        (MessageType.HEARTBEAT, "context_usage", True),
        (MessageType.HEARTBEAT, "current_step", 3),
        (MessageType.ASSIGN, "timeout_seconds", 1.5),
        (MessageType.ASSIGN, "timeout_seconds", "60"),
        (MessageType.ASSIGN, "task_id", 7),
        (MessageType.COMPLETE, "verification_passed", "yes"),
        (MessageType.COMPLETE, "verification_passed", 1),
        (MessageType.FAILED, "recoverable", None),
        (MessageType.PROGRESS, "timestamp", 1_767_600_000),
        (MessageType.PROGRESS, "timestamp", "yesterday"),
        (MessageType.PROGRESS, "worker_id", None),
        (MessageType.PROGRESS, "type", "PROGRESS"),
        (MessageType.PROGRESS, "type", None),
        (MessageType.PROGRESS, "type", ["progress"]),
    ],
)
def test_nothing_is_converted(kind: MessageType, member: str, value: object) -> None:
    assert refusal(example(kind) | {member: value}).field == member


def test_a_wrong_item_of_a_list_is_named_with_its_index() -> None:
    wrong = example(MessageType.COMPLETE) | {"files_created": ["a.py", 2]}
    assert refusal(wrong).field == "files_created.1"


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '"heartbeat"', "{]", "NaN"])
def test_anything_but_a_json_object_is_refused(text: str) -> None:
    assert refusal(text).field == "body"


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e400"])
def test_numbers_that_are_not_json_are_refused(number: str) -> None:
    text = json.dumps(example(MessageType.PROGRESS) | {"payload": {"x": [0]}})
    assert refusal(text.replace("[0]", f"[{number}]")).field == "body"


@pytest.mark.parametrize("payload", [{"x": "a\0b"}, {"a\0": 1}, {"x": [{"y": "\0"}]}])
def test_nul_characters_are_refused_wherever_they_are(payload: dict[str, Any]) -> None:
    assert refusal(example(MessageType.PROGRESS) | {"payload": payload}).field == "body"


def test_a_text_that_only_looks_like_an_escaped_nul_is_kept() -> None:
    payload = {"x": "\\u0000"}
    message = message_from_json(json.dumps(example(MessageType.PROGRESS) | {"payload": payload}))
    assert message.payload == payload


@pytest.mark.parametrize("commit", ["HEAD", "ABCDEF1", "abc123", "a" * 41, 1234567])
def test_an_invalid_commit_in_a_payload_is_refused_by_its_field(commit: object) -> None:
    with pytest.raises(InvalidRequest) as one:
        with_commit(assignment(), commit)
    assert (one.value.field, one.value.hint) == ("payload.commit", "`git rev-parse HEAD` prints it")
    assert "7 to 40 hexadecimal digits" in one.value.detail
    with pytest.raises(InvalidRequest) as several:
        all_commits(assignment(), {"commits": ["abcdef1", commit]})
    assert several.value.field == "payload.commits.1"
