"""Swarms and their workers: a list and a summary."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from rich.console import Group
from rich.progress_bar import ProgressBar
from rich.table import Column, Table
from rich.text import Text

from shiftboss.cli.common.output import printable
from shiftboss.cli.views.tables import Members, cell, plain_table
from shiftboss.cli.views.times import ago, span, until

# From this width on, there is a progress bar, and a column for errors.
BAR_COLUMNS_MIN: Final = 76
ERROR_COLUMNS_MIN: Final = 110
BAR_CELLS: Final = 10

_STYLES: Final = {"running": "cyan", "complete": "green", "failed": "bold red"}


def status_cell(status: str) -> Text:
    return cell(status, _STYLES.get(status, ""))


def swarms_table(swarms: list[Members], at: datetime) -> Table:
    table = plain_table(
        *(Column(name, no_wrap=True) for name in ("ID", "STATUS", "WORKERS", "CREATED")), "FEATURE"
    )
    for swarm in swarms:
        table.add_row(
            cell(swarm["swarm_id"]),
            status_cell(swarm["status"]),
            cell(_workers_done(swarm)),
            cell(ago(swarm["created_at"], at)),
            cell(swarm["feature"]),
        )
    return table


def _workers_done(swarm: Members) -> str:
    done = f"{swarm['workers_complete']}/{swarm['workers_registered']}"
    failed = swarm["workers_failed"]
    return f"{done}, {failed} failed" if failed else done


def swarm_summary(status: Members, usage: Members, at: datetime) -> Table:
    """A line for each fact, with what the swarm used and may use."""
    lines = Table.grid(padding=(0, 2, 0, 0))
    lines.add_row(Text("swarm"), Text(printable(status["swarm_id"]), style="bold"))
    if status["feature"]:
        lines.add_row(Text("feature"), Text(printable(status["feature"])))
    lines.add_row(Text("status"), status_cell(status["status"]))
    lines.add_row(Text("workers"), Text(_worker_counts(status)))
    lines.add_row(
        Text("tasks"), Text(f"{status['tasks_completed']} of {status['tasks_total']} completed")
    )
    lines.add_row(Text("merge"), Text("ready" if status["ready_for_merge"] else "not ready"))
    if usage["swarm"]["tokens"] or usage["budget"]:
        style = "bold red" if usage["over"] else ""
        lines.add_row(Text("usage"), Text(_usage(usage), style=style))
    for hold in status.get("holds", []):
        lines.add_row(Text("on hold"), Text(printable(_hold(hold, at)), style="yellow"))
    lines.add_row(Text("updated"), Text(ago(status["last_update"], at)))
    return lines


def _worker_counts(status: Members) -> str:
    counts = ", ".join(
        f"{status[f'workers_{state}']} {state}"
        for state in ("registered", "running", "complete", "failed")
    )
    expected = status["workers_expected"]
    return f"{counts} ({expected} expected)" if expected is not None else counts


def _usage(usage: Members) -> str:
    used, budget = usage["swarm"], usage["budget"] or {}
    tokens, dollars = f"{used['tokens']:,} tokens", f"${used['dollars']:,.2f}"
    if budget.get("tokens") is not None:
        tokens = f"{used['tokens']:,} of {budget['tokens']:,} tokens"
    if budget.get("dollars") is not None:
        dollars = f"{dollars} of ${budget['dollars']:,.2f}"
    unpriced = used["unpriced_tokens"]
    return f"{tokens}, {dollars}" + (f" ({unpriced:,} tokens without a price)" if unpriced else "")


def _hold(hold: Members, at: datetime) -> str:
    task = f"{hold['bead_id']}: " if hold["bead_id"] else ""
    left = "" if hold["until"] is None else f", {span(hold['until'] / 1000 - at.timestamp())} left"
    return f"{task}{hold['reason']}{left}"


def workers_table(workers: list[Members], width: int, at: datetime) -> Group:
    """A row per worker; on a narrow screen, the errors below the table."""
    with_bar, with_error = width >= BAR_COLUMNS_MIN, width >= ERROR_COLUMNS_MIN
    table = _worker_columns(with_bar=with_bar, with_error=with_error)
    for worker in workers:
        row = [
            cell(worker["packet_id"]),
            cell(worker["packet_name"]),
            status_cell(worker["status"]),
            cell(worker["attempt"]),
            _done(worker, with_bar=with_bar),
            cell(ago(worker["last_update"], at)),
            cell(_retries(worker["retries"], at), "yellow"),
        ]
        if with_error:
            row.append(cell(worker["last_error"] or "", "red"))
        table.add_row(*row)
    return Group(table, *([] if with_error else _errors(workers)))


def _worker_columns(*, with_bar: bool, with_error: bool) -> Table:
    fixed = [
        Column("STATUS", no_wrap=True),
        Column("TRY", no_wrap=True, justify="right"),
        Column("DONE", no_wrap=True, justify="left" if with_bar else "right"),
        Column("UPDATED", no_wrap=True, justify="right"),
        Column("RETRIES", no_wrap=True),
    ]
    columns = [Column("ID", no_wrap=True, justify="right"), Column("NAME"), *fixed]
    return plain_table(*columns, *(["ERROR"] if with_error else []), gap=2 if with_bar else 1)


def _done(worker: Members, *, with_bar: bool) -> Text | Table:
    done, total = worker["tasks_completed"], worker["tasks_total"]
    numbers = cell(f"{done}/{total}")
    if not with_bar:
        return numbers
    grid = Table.grid(padding=(0, 1, 0, 0))
    bar = ProgressBar(total, done, width=BAR_CELLS, complete_style="cyan", finished_style="green")
    grid.add_row(bar, numbers)
    return grid


def _retries(retries: list[Members], at: datetime) -> str:
    """The next retry, and how many more wait."""
    if not retries:
        return ""
    first = min(retries, key=lambda retry: str(retry["due_at"]))
    text = str(first["state"])
    if text == "scheduled":
        text = f"scheduled {until(first['due_at'], at)}"
    return f"{text} +{len(retries) - 1}" if len(retries) > 1 else text


def _errors(workers: list[Members]) -> list[Text]:
    return [
        Text(f"packet {worker['packet_id']}: {printable(worker['last_error'])}", style="red")
        for worker in workers
        if worker["last_error"]
    ]
