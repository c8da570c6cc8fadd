"""The output of a task's agent: lines for people, the new ones as they come."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from shiftboss.cli.common.client import parse_answer
from shiftboss.cli.common.command import ServerSession

LINES_PER_READ: Final = 500


class LogPart(NamedTuple):
    """Lines after a cursor. `is_live`: there may be more later. `more`: there are more now.
    If they cannot be read here, `problem` says why, and `command` shows them."""

    epoch: int | None
    epochs: list[int]
    lines: Sequence[Mapping[str, Any]]
    cursor: str | None
    is_live: bool
    problem: str
    command: str
    more: bool


def load_log(
    swarm_id: str, task_id: str, epoch: int | None, cursor: str | None
) -> Callable[[ServerSession], LogPart]:
    def load(session: ServerSession) -> LogPart:
        document = session.call(
            "read_log",
            swarm_id,
            bead_id=task_id,
            epoch=epoch,
            after=cursor,
            tail=cursor is None,
            limit=LINES_PER_READ,
        )
        return log_part(parse_answer(document, "available"))

    return load


def log_part(answer: Mapping[str, Any]) -> LogPart:
    lines = answer.get("lines") or ()  # left out if there are none
    problem = "" if answer.get("available", True) else str(answer.get("reason") or "no log")
    return LogPart(
        answer.get("epoch"),
        sorted(int(attempt["epoch"]) for attempt in answer.get("attempts") or ()),
        lines,
        answer.get("next"),
        bool(answer.get("live")),
        problem,
        str(answer.get("command") or ""),
        len(lines) >= LINES_PER_READ,
    )
