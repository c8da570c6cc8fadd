"""The messages between orchestrator and worker, with a strict JSON form.

`message_to_json` and `message_from_json` are exact inverses. A member that is missing, unknown or
of the wrong type is rejected by name.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from functools import cache
from typing import Any, Optional

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic_core import from_json as parse_json
from pydantic_core import to_json as render_json

from shiftboss.errors import InvalidRequest
from shiftboss.protocol.problems import invalid_request


class MessageType(Enum):
    ASSIGN = "assign"
    HEARTBEAT = "heartbeat"
    PROGRESS = "progress"
    COMPLETE = "complete"
    FAILED = "failed"
    BLOCKED = "blocked"
    CONTEXT_THRESHOLD = "context_threshold"


@dataclass
class Message:
    """Base message structure."""

    type: MessageType
    worker_id: str
    timestamp: datetime
    payload: dict[str, Any]


@dataclass
class AssignMessage(Message):
    """Task assignment from orchestrator."""

    task_id: str
    spec_path: str
    worktree_path: str
    timeout_seconds: int


@dataclass
class HeartbeatMessage(Message):
    """Worker health check."""

    context_usage: float  # 0.0 - 1.0
    current_step: Optional[str]  # noqa: UP045 (as in the document)


@dataclass
class CompleteMessage(Message):
    """Task completion report."""

    task_id: str
    files_created: list[str]
    files_modified: list[str]
    verification_passed: bool
    verification_output: str


@dataclass
class FailedMessage(Message):
    """Task failure report."""

    task_id: str
    error: str
    recoverable: bool
    checkpoint_path: Optional[str]  # noqa: UP045


# The class of each message type. Types without members of their own are plain messages.
MESSAGE_FORMS: dict[MessageType, type[Message]] = {
    MessageType.ASSIGN: AssignMessage,
    MessageType.HEARTBEAT: HeartbeatMessage,
    MessageType.PROGRESS: Message,
    MessageType.COMPLETE: CompleteMessage,
    MessageType.FAILED: FailedMessage,
    MessageType.BLOCKED: Message,
    MessageType.CONTEXT_THRESHOLD: Message,
}


def message_to_json(message: Message) -> str:
    fields = dataclasses.asdict(message)
    fields["type"] = message.type.value
    fields["timestamp"] = message.timestamp.isoformat()
    return render_json(fields).decode()


def message_from_json(text: str | bytes) -> Message:
    """Raises InvalidRequest, which names the member that is wrong."""
    try:
        return _adapters()[_type_of(text)].validate_json(text, strict=True)
    except ValidationError as error:
        raise invalid_request(error) from None


def _type_of(text: str | bytes) -> MessageType:
    try:
        body = parse_json(text, allow_inf_nan=False)
    except ValueError as error:
        raise InvalidRequest(f"body: {error}", field="body") from None
    if not isinstance(body, dict):
        raise InvalidRequest("body: must be a JSON object", field="body")
    if not _is_storable(body):
        raise InvalidRequest(
            "body: must not contain NUL characters or infinite numbers", field="body"
        )
    try:
        return MessageType(body.get("type"))
    except ValueError:
        names = ", ".join(kind.value for kind in MessageType)
        raise InvalidRequest(f"type: must be one of {names}", field="type") from None


def _is_storable(value: object) -> bool:
    """PostgreSQL text cannot hold NUL. 1e400 parses as infinity, which JSON cannot write back."""
    match value:
        case str():
            return "\0" not in value
        case float():
            return math.isfinite(value)
        case list():
            return all(map(_is_storable, value))
        case dict():
            return all(map(_is_storable, value)) and all(map(_is_storable, value.values()))
    return True


@cache
def _adapters() -> dict[MessageType, TypeAdapter[Message]]:
    for form in (Message, *Message.__subclasses__()):
        form.__pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[attr-defined]
    return {kind: TypeAdapter(form) for kind, form in MESSAGE_FORMS.items()}
