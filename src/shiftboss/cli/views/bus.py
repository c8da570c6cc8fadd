"""Tasks, workers and questions of the bus."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Final

from rich.table import Column, Table
from rich.text import Text

from shiftboss.cli.common.output import printable, printable_lines
from shiftboss.cli.common.tables import WIDE_COLUMNS_MIN, Members, cell, plain_table
from shiftboss.cli.common.times import ago_ms, span

_STYLES: Final = {
    "active": "cyan",
    "executing": "cyan",
    "queued": "yellow",
    "pending": "yellow",
    "done": "green",
    "landed": "green",
    "failed": "bold red",
    "blocked": "bold yellow",
    "in review": "bold yellow",
    "parked": "blue",
    "cancelled": "yellow",
}


def _state(status: str) -> Text:
    return cell(status, _STYLES.get(status, ""))


def effective_status(task: Members) -> str:
    """The status in words for people: the status alone does not say who has to act."""
    if task.get("landed_commit"):
        return "landed"
    status, hold = str(task["status"]), task.get("hold")
    if status == "done" and (task.get("review") or {}).get("state") == "open":
        return "in review"
    if hold == "answer" or (status == "active" and task["state"] == "blocked"):
        return "blocked"
    return "parked" if hold else status


def _worker(task: Members) -> str:
    """A task that waits still names its last worker, which may have another one now."""
    return "" if task["status"] in ("open", "queued") else str(task["worker"] or "")


def tasks_table(tasks: list[Members], at: datetime, width: int) -> Table:
    """On a narrow screen, only the most important columns."""
    columns: dict[str, Callable[[Members], Text]] = {
        "ID": lambda task: cell(task["bead_id"]),
        "STATUS": lambda task: _state(effective_status(task)),
    }
    if width >= WIDE_COLUMNS_MIN:
        columns["PRIORITY"] = lambda task: cell(task["priority"])
    columns["TRY"] = lambda task: cell(task["attempt"] or "")
    if width >= WIDE_COLUMNS_MIN:
        columns["WORKER"] = lambda task: cell(_worker(task))
        columns["UPDATED"] = lambda task: cell(ago_ms(task["updated_at"], at))
    table = plain_table(*(Column(name, no_wrap=True) for name in columns), "TITLE")
    for task in tasks:
        table.add_row(*(show(task) for show in columns.values()), cell(task["title"]))
    return table


def task_summary(task: Members, at: datetime) -> Table:
    """A line for each fact."""
    lines = Table.grid(padding=(0, 2, 0, 0))
    lines.add_row(Text("task"), Text(printable(task["bead_id"]), style="bold"))
    lines.add_row(Text("title"), Text(printable(task["title"])))
    lines.add_row(Text("status"), _state(effective_status(task)))
    for name, value in _facts(task).items():
        if value:
            lines.add_row(Text(name), Text(printable(value)))
    lines.add_row(Text("updated"), Text(ago_ms(task["updated_at"], at)))
    return lines


def _facts(task: Members) -> Members:
    """Facts that only some tasks have."""
    return {
        "state": task["state"],
        "worker": _worker(task),
        "try": task.get("attempt"),
        "landed": task.get("landed_commit"),
        "receipt": task.get("receipt_id"),
        "priority": task["priority"],
        "depends on": ", ".join(task["depends_on"]),
        "waits for": task["waits_for"],
        "error" if task["status"] != "cancelled" else "cancelled": task["last_error"],
        "review": _review(task.get("review")),
        "description": task["description"],
    }


def _review(review: Members | None) -> str:
    if review is None:
        return ""
    text = f"{review['state']}, commit {review['commit'][:12]}"
    text += f", by {review['decided_by']}" if review.get("decided_by") else ""
    return text + (f": {review['reason']}" if review.get("reason") else "")


def bus_workers_table(workers: list[Members]) -> Table:
    table = plain_table(
        *(Column(name, no_wrap=True) for name in ("NAME", "STATUS", "TASK", "IDLE"))
    )
    for worker in workers:
        table.add_row(
            cell(worker["name"]),
            _state(worker["status"]),
            cell(worker["current_task"] or ""),
            cell(span(worker["idle_seconds"])),
        )
    return table


def questions_table(questions: list[Members], at: datetime, *, with_answers: bool) -> Table:
    """The questions are not cut off, and keep their line breaks."""
    columns = [Column(name, no_wrap=True) for name in ("ID", "TASK", "WORKER", "CONTACT", "ASKED")]
    table = plain_table(*columns, "QUESTION", *(["ANSWER"] if with_answers else []))
    for question in questions:
        row = [cell(question[name]) for name in ("question_id", "bead_id", "worker", "contact")]
        row += [cell(ago_ms(question["asked_at"], at)), Text(printable_lines(question["question"]))]
        if with_answers:
            row.append(Text(printable_lines(question["answer"] or "")))
        table.add_row(*row)
    return table
