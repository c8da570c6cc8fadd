"""Repos, halts, CI jobs and checkpoints."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from rich.table import Column, Table
from rich.text import Text

from shiftboss.cli.common.output import printable
from shiftboss.cli.common.tables import Members, add_fact, cell, facts_grid, plain_table
from shiftboss.cli.common.times import ago_ms

SHA_CHARACTERS: Final = 10

_STYLES: Final = {
    "green": "green",
    "passed": "green",
    "success": "green",
    "red": "bold red",
    "failed": "bold red",
    "failure": "bold red",
    "cancelled": "bold red",
    "skipped": "yellow",
    "running": "cyan",
    "waiting": "yellow",
}


def repos_table(repos: Sequence[Members], at: datetime) -> Table:
    """In the order of their phases."""
    names = ("PHASE", "REPO", "TASK", "SINCE", "CI", "COMMIT", "RUN")
    table = plain_table(*(Column(name, no_wrap=True) for name in names), "DEPENDS ON")
    for repo in repos:
        # A run that is being watched is newer than the last result.
        last = {"state": repo["ci"], "sha": repo["sha"], "run_id": repo["run_id"]}
        run = repo["tracking"] or last
        since = ago_ms(repo["locked_since"], at) if repo["locked_since"] else ""
        table.add_row(
            cell(repo["phase"]),
            cell(repo["repo"], "bold"),
            cell(repo["locked_by"] or "", "cyan"),
            cell(since),
            _state(run["state"]),
            cell((run["sha"] or "")[:SHA_CHARACTERS]),
            cell(f"#{run['run_id']}" if run["run_id"] else ""),
            Text(printable(", ".join(repo["depends_on"]))),
        )
    return table


def _state(state: str | None) -> Text:
    return cell(state or "", _STYLES.get(state or "", ""))


def halt_lines(halts: Sequence[Members], at: datetime) -> list[Text]:
    """The reasons are not cut off: the operator needs them to decide."""
    lines = []
    for halt in halts:
        since, repos = ago_ms(halt["at_ms"], at), ", ".join(halt["repos"])
        text = f"halt {halt['halt_id']}, {since}, of {repos}: {halt['reason']}"
        lines.append(Text(printable(text), style="bold red"))
        command = f"shiftboss resume {halt['halt_id']} --reason 'it is fixed'"
        lines.append(Text(f"  lift it with: {command}"))
    return lines


def jobs_table(jobs: Sequence[Members]) -> Table:
    table = plain_table(Column("JOB", no_wrap=True), Column("STATE", no_wrap=True))
    for job in jobs:
        table.add_row(cell(job["name"]), _state(job["state"]))
    return table


def checkpoint_summary(fields: Members, trigger: str, at_ms: int, at: datetime) -> Table:
    """The contract's fields in its order, without the empty ones."""
    lines = facts_grid()
    add_fact(lines, "written", f"{ago_ms(at_ms, at)}: {trigger}")
    for name, value in fields.items():
        for number, item in enumerate(_values(value)):
            add_fact(lines, name if number == 0 else "", item)
    return lines


def _listed(part: object) -> object:
    return " ".join(map(str, part)) if isinstance(part, list) else part


def _values(value: object) -> list[object]:
    if isinstance(value, list):
        return [
            ", ".join(f"{name} {_listed(part)}" for name, part in item.items())
            if isinstance(item, dict)
            else item
            for item in value
        ]
    return [] if value is None else [value]
