"""The board of a swarm as it was, and how its tasks moved."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from rich.table import Column, Table

from shiftboss.cli.common.event_stream import StreamEvent
from shiftboss.cli.common.output import printable
from shiftboss.cli.common.tables import Members, cell, plain_table
from shiftboss.cli.common.times import local_time
from shiftboss.cli.views.events import ID_CELLS, sentence
from shiftboss.rules.documents.wording import pluralize

# In the order of the board; tasks that wait for a person come first.
_NAMES: Final = {
    "needs_you": "needs you",
    "failed": "failed",
    "running": "running",
    "verifying": "verifying",
    "waiting": "waiting",
    "accepted": "accepted",
    "done": "done",
}
_STYLES: Final = {
    "needs_you": "bold yellow",
    "failed": "bold red",
    "running": "cyan",
    "verifying": "cyan",
    "accepted": "green",
    "done": "green",
}


def counts_text(counts: Mapping[str, int]) -> str:
    names = _NAMES | ({"needs_you": "need you"} if counts.get("needs_you") != 1 else {})
    parts = [f"{counts[column]} {name}" for column, name in names.items() if counts.get(column)]
    return ", ".join(parts) or "no tasks"


def move_line(
    event: StreamEvent, task_id: str, before: str | None, after: str, counts: Mapping[str, int]
) -> str:
    """`   12  2026-01-05 10:00:01  login: waiting -> running  (1 running, 2 done)`."""
    move = _NAMES[after] if before is None else f"{_NAMES[before]} -> {_NAMES[after]}"
    time = local_time(event.at) if event.at else ""
    return f"{event.id:>{ID_CELLS}}  {time}  {task_id}: {move}  ({counts_text(counts)})"


def state_line(swarm_id: str, state: Members) -> str:
    where = f"{swarm_id} after event {state['at']} of {state['last_event_id']}"
    event, parts = state.get("event"), [where]
    if event is not None:
        text = sentence(StreamEvent(event["event_id"], event["kind"], event["data"]))
        parts.append(f"{printable(event['kind'])}: {text}")
    return "; ".join([*parts, counts_text(state["counts"])])


def board_table(tasks: list[Members]) -> Table:
    """By column, then by id."""
    names = ("COLUMN", "ID", "WORKER", "ATTEMPT", "AT")
    table = plain_table(*(Column(name, no_wrap=True) for name in names), "TITLE")
    order = list(_NAMES)
    for task in sorted(tasks, key=lambda task: order.index(task["column"])):
        column = task["column"]
        table.add_row(
            cell(_NAMES[column], _STYLES.get(column, "")),
            cell(task["bead_id"]),
            cell("" if column == "waiting" else task.get("worker") or ""),
            cell(task.get("epoch") or ""),
            cell(_place(task)),
            cell(task["title"]),
        )
    return table


def _place(task: Members) -> str:
    """Where it is within its column."""
    if task.get("in_review"):
        return "in review"
    if task.get("landed"):
        return f"landed {task['landed'][:10]}"
    if task["column"] == "waiting" and task.get("waits_for"):
        return f"waits for {pluralize(task['waits_for'], 'task')}"
    return str(task.get("milestone") or task.get("state") or task["status"])
