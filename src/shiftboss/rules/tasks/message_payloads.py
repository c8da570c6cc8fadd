"""What the payload of a message says, checked member by member."""

from __future__ import annotations

import json
import re
from typing import Any

from shiftboss.errors import InvalidRequest, NotHeld
from shiftboss.protocol.messages import Message
from shiftboss.protocol.states import WorkerState
from shiftboss.rules.tasks.packets import Assignment

COMMITS_MAX = 100
_COMMIT = re.compile(r"[a-f0-9]{7,40}")


def said_state(payload: dict[str, Any], present: WorkerState) -> WorkerState:
    said = payload.get("state")
    if said is None:
        # Progress acknowledges a task, and shows that a blocked worker has gone on.
        goes_on = present in (WorkerState.ASSIGNED, WorkerState.BLOCKED)
        return WorkerState.EXECUTING if goes_on else present
    try:
        return WorkerState(said)
    except ValueError:
        raise InvalidRequest(
            f"payload.state: {said!r} is not a state", field="payload.state"
        ) from None


def with_commit(held: Assignment, commit: object, field: str = "payload.commit") -> Assignment:
    if commit is None:
        return held
    if not (isinstance(commit, str) and _COMMIT.fullmatch(commit)):
        raise InvalidRequest(
            f"{field}: must be the id of a commit, 7 to 40 digits of 0-9 and a-f",
            field=field,
            hint="git rev-parse HEAD",
        )
    commits: list[str] = json.loads(held.commits or "[]")
    if commit in commits:
        return held
    return held._replace(commits=json.dumps([*commits, commit][-COMMITS_MAX:]))


def all_commits(held: Assignment, payload: dict[str, Any]) -> list[str]:
    """Those that were reported on the way and those that the checkpoint names."""
    said = payload.get("commits")
    for place, commit in enumerate(said if isinstance(said, list) else ()):
        held = with_commit(held, commit, f"payload.commits.{place}")
    commits: list[str] = json.loads(held.commits or "[]")
    return commits


def said_text(payload: dict[str, Any], name: str, usual: str) -> str:
    value = payload.get(name, usual)
    if not isinstance(value, str) or "\0" in value or len(value) > 20_000:
        raise InvalidRequest(f"payload.{name}: must be a text", field=f"payload.{name}")
    return value


def said_epoch(message: Message) -> int | None:
    epoch = message.payload.get("epoch")
    if epoch is not None and type(epoch) is not int:
        raise InvalidRequest("payload.epoch: must be a whole number", field="payload.epoch")
    return epoch


def said_task_id(message: Message) -> str | None:
    said = getattr(message, "task_id", None) or message.payload.get("task_id")
    return None if said is None else str(said)


def check_task(held: Assignment, message: Message) -> None:
    said = said_task_id(message)
    if said is not None and said != held.task_id:
        raise NotHeld(said, None)
