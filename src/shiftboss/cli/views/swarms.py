"""Swarms and their workers: a list and a summary."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Final

from rich.console import Group
from rich.progress_bar import ProgressBar
from rich.table import Column, Table
from rich.text import Text

from shiftboss.cli.common.output import printable
from shiftboss.cli.common.tables import WIDE_COLUMNS_MIN, Members, cell, plain_table
from shiftboss.cli.common.times import ago, until
from shiftboss.cli.views.overview import STATUS_STYLES, work_text

# From this width on, there is a progress bar, and a column for errors.
BAR_COLUMNS_MIN: Final = 76
ERROR_COLUMNS_MIN: Final = 110
BAR_CELLS: Final = 10


def status_cell(status: str) -> Text:
    return cell(status, STATUS_STYLES.get(status, ""))


def swarms_table(swarms: list[Members], at: datetime, width: int) -> Table:
    """Columns that would be empty are left out, and on a narrow screen the less important."""
    with_packets = any(swarm["workers_registered"] for swarm in swarms)
    with_tasks = any(swarm["bus"]["total"] for swarm in swarms)
    is_wide = width >= WIDE_COLUMNS_MIN
    columns: dict[str, Callable[[Members], Text]] = {
        "ID": lambda swarm: cell(swarm["swarm_id"]),
        "STATUS": lambda swarm: status_cell(swarm["status"]),
    }
    if with_packets:
        columns["PACKETS"] = lambda swarm: cell(_packets_done(swarm))
    if with_tasks:
        columns["TASKS"] = lambda swarm: cell(_tasks_done(swarm["bus"]))
        if is_wide:
            columns["LANDED"] = lambda swarm: cell(swarm["bus"]["landed"] or "")
            columns["COST"] = lambda swarm: cell(_cost(swarm["bus"]))
    if is_wide:
        columns["UPDATED"] = lambda swarm: cell(ago(swarm["last_update"], at))
    table = plain_table(*(Column(name, no_wrap=True) for name in columns), "FEATURE")
    for swarm in swarms:
        table.add_row(*(show(swarm) for show in columns.values()), cell(swarm["feature"]))
    return table


def _packets_done(swarm: Members) -> str:
    if not swarm["workers_registered"]:
        return ""
    done = f"{swarm['workers_complete']}/{swarm['workers_registered']}"
    failed = swarm["workers_failed"]
    return f"{done}, {failed} failed" if failed else done


def _tasks_done(bus: Members) -> str:
    if not bus["total"]:
        return ""
    done = f"{bus['done']}/{bus['total']}"
    return f"{done}, {bus['failed']} failed" if bus["failed"] else done


def _cost(bus: Members) -> str:
    """The dollars, or the tokens if no price is known."""
    if bus["dollars"]:
        return f"${bus['dollars']:,.2f}"
    return f"{bus['tokens']:,}" if bus["tokens"] else ""


def swarm_summary(status: Members, usage: Members, at: datetime) -> Table:
    """A line for each fact, with the usage and the limits of the swarm."""
    lines = Table.grid(padding=(0, 2, 0, 0))
    lines.add_row(Text("swarm"), Text(printable(status["swarm_id"]), style="bold"))
    if status["feature"]:
        lines.add_row(Text("feature"), Text(printable(status["feature"])))
    if status["plan_file"]:
        lines.add_row(Text("plan"), Text(printable(status["plan_file"])))
    lines.add_row(Text("status"), status_cell(status["status"]))
    bus = status["bus"]
    if bus["total"]:
        lines.add_row(Text("tasks"), Text(work_text(bus)))
        lines.add_row(Text("accepted"), Text(_accepted(bus)))
        lines.add_row(Text("workers"), Text(str(bus["workers"])))
    if status["workers_registered"] or not bus["total"]:
        lines.add_row(Text("packets"), Text(_packet_counts(status)))
        steps = f"{status['tasks_completed']} of {status['tasks_total']} completed"
        lines.add_row(Text("steps"), Text(steps))
        lines.add_row(Text("merge"), Text("ready" if status["ready_for_merge"] else "not ready"))
    if usage["swarm"]["tokens"] or usage["budget"]:
        style = "bold red" if usage["over"] else ""
        lines.add_row(Text("usage"), Text(_usage(usage), style=style))
    if status["completed_at"]:
        lines.add_row(Text("completed"), Text(ago(status["completed_at"], at)))
    lines.add_row(Text("updated"), Text(ago(status["last_update"], at)))
    return lines


def _accepted(bus: Members) -> str:
    receipts = f"{bus['receipts']} with a receipt"
    left = bus["receipts"] - bus["landed"]
    return f"{receipts}, {bus['landed']} landed" + (f", {left} to land" if left else "")


def _packet_counts(status: Members) -> str:
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
