"""The output of a task's agent: lines for people, the new ones as they come."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from rich.text import Text

from shiftboss.cli.common.client import parse_answer
from shiftboss.cli.common.command import ServerSession
from shiftboss.cli.common.output import printable, printable_lines
from shiftboss.cli.watch.documents import drawn

LINES_PER_READ: Final = 500
_STYLES: Final = {
    "tool": "cyan",
    "denied": "bold yellow",
    "limit": "bold yellow",
    "error": "bold red",
    "stderr": "dim",
    "finished": "bold",
}
# Kinds that their colour alone would not tell from others.
_WORDS: Final = {"denied": "denied: ", "limit": "limit: ", "error": "error: ", "stderr": "! "}


class LogPart(NamedTuple):
    """Lines after a cursor. `is_live`: there may be more later. `more`: there are more now."""

    epoch: int | None
    epochs: list[int]
    lines: Sequence[Mapping[str, Any]]
    cursor: str | None
    is_live: bool
    problem: str
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
            limit=LINES_PER_READ,
        )
        return log_part(parse_answer(document, "lines"))

    return load


def log_part(answer: Mapping[str, Any]) -> LogPart:
    lines = answer["lines"]
    problem = "" if answer.get("available", True) else str(answer.get("reason") or "no log")
    if problem and answer.get("command"):
        problem += f"; {answer['command']}"
    return LogPart(
        answer.get("epoch"),
        sorted(int(attempt["epoch"]) for attempt in answer.get("attempts") or ()),
        lines,
        answer.get("next"),
        bool(answer.get("live")),
        problem,
        len(lines) >= LINES_PER_READ,
    )


def log_lines(lines: Sequence[Mapping[str, Any]], width: int) -> list[Any]:
    """Called in a thread."""
    return drawn([_line(line) for line in lines], width)


def _line(line: Mapping[str, Any]) -> Text:
    kind = str(line.get("kind") or "text")
    text = printable_lines(line.get("text") or "")
    return Text(f"{_WORDS.get(kind, '')}{text}", _STYLES.get(kind, ""), overflow="fold")


def problem_lines(problem: str, width: int) -> list[Any]:
    return drawn([Text(printable(problem), "dim")], width)
