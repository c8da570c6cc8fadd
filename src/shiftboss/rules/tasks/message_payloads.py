"""Reads and checks the payload of a worker protocol message, member by member."""

from __future__ import annotations

import json
import re
from typing import Any

from pydantic import ValidationError

from shiftboss.errors import InvalidRequest, NotHeld
from shiftboss.protocol.messages import Message
from shiftboss.protocol.questions import Dispute
from shiftboss.protocol.states import WorkerState
from shiftboss.rules.tasks.packets import Assignment

COMMITS_MAX = 100
_COMMIT = re.compile(r"[a-f0-9]{7,40}")


def reported_state(payload: dict[str, Any], present: WorkerState) -> WorkerState:
    """The state that the message reports."""
    reported = payload.get("state")
    if reported is None:
        # Progress acknowledges a task, and shows that a blocked worker has continued.
        continues = present in (WorkerState.ASSIGNED, WorkerState.BLOCKED)
        return WorkerState.EXECUTING if continues else present
    try:
        return WorkerState(reported)
    except ValueError:
        raise InvalidRequest(
            f"payload.state: {reported!r} is not a state", field="payload.state"
        ) from None


def with_commit(held: Assignment, commit: object, field: str = "payload.commit") -> Assignment:
    """The assignment with one more reported commit."""
    if commit is None:
        return held
    if not (isinstance(commit, str) and _COMMIT.fullmatch(commit)):
        raise InvalidRequest(
            f"{field}: must be a commit id of 7 to 40 hexadecimal digits",
            field=field,
            hint="`git rev-parse HEAD` prints it",
        )
    commits: list[str] = json.loads(held.commits or "[]")
    if commit in commits:
        return held
    return held._replace(commits=json.dumps([*commits, commit][-COMMITS_MAX:]))


def all_commits(held: Assignment, payload: dict[str, Any]) -> list[str]:
    """The commits of earlier reports and those of the checkpoint."""
    reported = payload.get("commits")
    for index, commit in enumerate(reported if isinstance(reported, list) else ()):
        held = with_commit(held, commit, f"payload.commits.{index}")
    commits: list[str] = json.loads(held.commits or "[]")
    return commits


def payload_text(payload: dict[str, Any], name: str, default: str) -> str:
    value = payload.get(name, default)
    if not isinstance(value, str) or "\0" in value or len(value) > 20_000:
        raise InvalidRequest(
            f"payload.{name}: must be a string of at most 20000 characters", field=f"payload.{name}"
        )
    return value


def payload_dispute(payload: dict[str, Any]) -> Dispute:
    try:
        return Dispute.model_validate(payload["dispute"])
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(("payload", "dispute", *map(str, first["loc"])))
        raise InvalidRequest(f"{field}: {first['msg']}", field=field) from None


def payload_epoch(message: Message) -> int | None:
    epoch = message.payload.get("epoch")
    if epoch is not None and type(epoch) is not int:
        raise InvalidRequest("payload.epoch: must be a whole number", field="payload.epoch")
    return epoch


def payload_task_id(message: Message) -> str | None:
    task_id = getattr(message, "task_id", None) or message.payload.get("task_id")
    return None if task_id is None else str(task_id)


def check_task(held: Assignment, message: Message) -> None:
    """Reject a message about another task than the worker holds."""
    task_id = payload_task_id(message)
    if task_id is not None and task_id != held.task_id:
        raise NotHeld(task_id, None)
