"""One request on the wire and its answer, whether it is plain HTTP or an MCP tool call."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from shiftboss.client.errors import is_retryable_status

LINE_CHARACTERS_MAX: Final = 300
_CALL_IDS: Final = ("callId", "claudecode/toolUseId")


@dataclass(slots=True)
class Exchange:
    """`operation` is the last part of the path, or the MCP tool. `is_delivered`: the caller got the
    answer. `noted` is what was found on disk when the request arrived."""

    method: str
    path: str
    operation: str
    arguments: dict[str, Any]
    key: str | None
    at: float = field(default_factory=time.monotonic)
    status: int | None = None
    answer: dict[str, Any] | None = None
    answered_at: float | None = None
    is_delivered: bool = False
    noted: Any = None

    @property
    def is_open(self) -> bool:
        return self.answered_at is None

    @property
    def is_final(self) -> bool:
        """Whether the caller knows what became of its request: it was accepted or refused."""
        is_processed = self.status is not None and not is_retryable_status(self.status)
        return self.is_delivered and is_processed

    @property
    def is_success(self) -> bool:
        return self.status is not None and self.status < 300 and "error" not in (self.answer or {})

    @property
    def bead_id(self) -> str | None:
        named = self.arguments.get("bead_id") or self.message.get("task_id")
        named = named or self.payload.get("task_id")
        return named if isinstance(named, str) else None

    @property
    def message(self) -> dict[str, Any]:
        """The message of the worker protocol that was sent, if it is one."""
        return _object(self.arguments.get("message"))

    @property
    def payload(self) -> dict[str, Any]:
        return _object(self.message.get("payload"))

    @property
    def given_task(self) -> dict[str, Any]:
        """The task in the answer to a poll."""
        return _object((self.answer or {}).get("task"))

    def line(self) -> str:
        sent = json.dumps(self.arguments, separators=(",", ":"))
        key = f" key={self.key}" if self.key else ""
        answer = json.dumps(self.answer, separators=(",", ":")) if self.answer is not None else ""
        lost = "" if self.is_delivered or self.is_open else " (the answer was lost)"
        text = f"{self.method} {self.path}"
        if self.path == "/mcp":
            text += f" {self.operation}"
        text += f" {sent[: LINE_CHARACTERS_MAX // 2]}{key} -> {self.status or 'no answer'} {answer}"
        return (text[:LINE_CHARACTERS_MAX] + lost).rstrip()


def exchange_of(method: str, path: str, headers: Mapping[str, str], body: bytes) -> Exchange:
    document = json_object(body)
    plain_path = path.partition("?")[0]
    operation, arguments = plain_path.rpartition("/")[2], document
    key = headers.get("Idempotency-Key")
    if plain_path == "/mcp":
        params = _object(document.get("params"))
        operation, arguments = f"mcp:{document.get('method')}", params
        if document.get("method") == "tools/call":
            operation, arguments = str(params.get("name")), _object(params.get("arguments"))
            meta = _object(params.get("_meta"))
            key = key or next((str(meta[name]) for name in _CALL_IDS if name in meta), None)
    elif plain_path == "/messages":
        operation, arguments = "send_message", {"message": document}
    return Exchange(method, plain_path, operation, arguments, key)


def answer_of(path: str, content_type: str, body: bytes) -> dict[str, Any] | None:
    """The answer as an object; of a tool, its structured content."""
    document = answer_document(content_type, body)
    result = document.get("result")
    if path.partition("?")[0] == "/mcp" and isinstance(result, dict):
        return tool_answer(result)
    return document or None


def answer_document(content_type: str, body: bytes) -> dict[str, Any]:
    """The JSON of an answer; of an event stream, that of its last event."""
    if content_type.startswith("text/event-stream"):
        lines = body.splitlines()
        body = next((line[5:] for line in reversed(lines) if line.startswith(b"data:")), b"")
    return json_object(body)


def tool_answer(result: dict[str, Any]) -> dict[str, Any]:
    """A tool answers with structured content, or with the same JSON as text."""
    structured = result.get("structuredContent")
    if isinstance(structured, dict):
        return structured
    for part in result.get("content") or ():
        if isinstance(part, dict) and part.get("type") == "text":
            return json_object(str(part.get("text")).encode())
    return result


def json_object(body: bytes) -> dict[str, Any]:
    try:
        return _object(json.loads(body))
    except (ValueError, RecursionError):
        return {}


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
