"""A swarm in a few lines."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from rich.table import Table
from rich.text import Text

from shiftboss.cli.common.output import plain
from shiftboss.cli.views.swarms import status_cell
from shiftboss.cli.views.times import ago, span

Members = dict[str, Any]


def swarm_summary(status: Members, at: datetime) -> Table:
    """The counts, a line each."""
    lines = Table.grid(padding=(0, 2, 0, 0))
    lines.add_row(Text("swarm"), Text(plain(status["swarm_id"]), style="bold"))
    if status["feature"]:
        lines.add_row(Text("feature"), Text(plain(status["feature"])))
    lines.add_row(Text("status"), status_cell(status["status"]))
    lines.add_row(Text("workers"), Text(_workers(status)))
    lines.add_row(
        Text("tasks"), Text(f"{status['tasks_completed']} of {status['tasks_total']} completed")
    )
    lines.add_row(Text("merge"), Text("ready" if status["ready_for_merge"] else "not ready"))
    for hold in status.get("holds", []):
        lines.add_row(Text("held back"), Text(plain(_held(hold, at)), style="yellow"))
    lines.add_row(Text("updated"), Text(ago(status["last_update"], at)))
    return lines


def _held(hold: Members, at: datetime) -> str:
    whose = f"{hold['bead_id']}: " if hold["bead_id"] else ""
    left = "" if hold["until"] is None else f", {span(hold['until'] / 1000 - at.timestamp())} left"
    return f"{whose}{hold['reason']}{left}"


def _workers(status: Members) -> str:
    counts = ", ".join(
        f"{status[f'workers_{what}']} {what}"
        for what in ("registered", "running", "complete", "failed")
    )
    expected = status["workers_expected"]
    return f"{counts} ({expected} expected)" if expected is not None else counts
