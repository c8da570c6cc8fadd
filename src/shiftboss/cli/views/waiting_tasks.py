"""What a run waits for, below its table: each reason with its whole command, for as long as it
waits."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from rich.console import Console
from rich.text import Text

from shiftboss.cli.common.output import printable
from shiftboss.orchestrator.run.progress import TaskProgress

REASONS_SHOWN: Final = 4
_WAITING: Final = ("blocked", "in review", "parked")


def waiting_lines(
    rows: Iterable[TaskProgress], prompted: Collection[str], console: Console, rows_max: int
) -> list[Text]:
    """Rows of the terminal: the reasons that fit, wrapped and never cut, and how many do not.
    `prompted` are the tasks that the prompt asks about already."""
    reasons = _tasks_by_reason(rows, prompted)
    lines: list[Text] = []
    shown = 0
    for reason, tasks in list(reasons.items())[:REASONS_SHOWN]:
        wrapped = _wrapped(f"{_names(tasks)}: {reason}", console)
        # The last row is for the number of those that do not fit.
        if len(lines) + len(wrapped) + (shown + 1 < len(reasons)) > rows_max:
            break
        lines += wrapped
        shown += 1
    if shown < len(reasons):
        lines += _wrapped(f"… and {len(reasons) - shown} more: shiftboss status", console)
    return lines


def _tasks_by_reason(
    rows: Iterable[TaskProgress], prompted: Collection[str]
) -> dict[str, list[str]]:
    """A pause of the whole swarm is the reason of many tasks."""
    reasons: dict[str, list[str]] = {}
    for row in rows:
        if row.stage in _WAITING and row.doing and row.bead_id not in prompted:
            reasons.setdefault(row.doing, []).append(row.bead_id)
    return reasons


def _names(tasks: list[str]) -> str:
    return tasks[0] + (f" and {len(tasks) - 1} more" if len(tasks) > 1 else "")


def _wrapped(text: str, console: Console) -> list[Text]:
    return list(Text(printable(text), "yellow").wrap(console, console.width, overflow="fold"))
