"""Repos, halts, CI jobs and checkpoints for people. Imported late: it needs rich."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

from rich.table import Column, Table
from rich.text import Text

from shiftboss.cli.common.output import plain
from shiftboss.cli.views.handoffs import add_fact, facts_grid
from shiftboss.cli.views.swarms import Members, cell, plain_table
from shiftboss.cli.views.times import ago_ms

if TYPE_CHECKING:
    from shiftboss.doctor.findings import Finding

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
_LEVELS: Final = {"ok": "green", "warning": "yellow", "problem": "bold red"}


def repos_table(repos: Sequence[Members], at: datetime) -> Table:
    """Roots first, as they may be worked on."""
    names = ("PHASE", "REPO", "TASK", "SINCE", "CI", "COMMIT", "RUN")
    table = plain_table(*(Column(name, no_wrap=True) for name in names), "DEPENDS ON")
    for one in repos:
        # What is followed now says more than what CI has said last.
        seen = one["tracking"] or {"state": one["ci"], "sha": one["sha"], "run_id": one["run_id"]}
        since = ago_ms(one["locked_since"], at) if one["locked_since"] else ""
        table.add_row(
            cell(one["phase"]),
            cell(one["repo"], "bold"),
            cell(one["locked_by"] or "", "cyan"),
            cell(since),
            _state(seen["state"]),
            cell((seen["sha"] or "")[:SHA_CHARACTERS]),
            cell(f"#{seen['run_id']}" if seen["run_id"] else ""),
            Text(plain(", ".join(one["depends_on"]))),
        )
    return table


def _state(state: str | None) -> Text:
    return cell(state or "", _STYLES.get(state or "", ""))


def halt_lines(halts: Sequence[Members], at: datetime) -> list[Text]:
    """The words in full: somebody has to decide by them."""
    lines = []
    for one in halts:
        since = ago_ms(one["at_ms"], at)
        words = f"halt {one['halt_id']}, {since}, of {', '.join(one['repos'])}: {one['reason']}"
        lines.append(Text(plain(words), style="bold red"))
        lines.append(Text(f"  lift it with: shiftboss resume {one['halt_id']} --reason TEXT"))
    return lines


def jobs_table(jobs: Sequence[Members]) -> Table:
    table = plain_table(Column("JOB", no_wrap=True), Column("STATE", no_wrap=True))
    for one in jobs:
        table.add_row(cell(one["name"]), _state(one["state"]))
    return table


def checkpoint_summary(fields: Members, trigger: str, at_ms: int, at: datetime) -> Table:
    """The contract's fields in its order, a line each; those that say nothing are left out."""
    lines = facts_grid()
    add_fact(lines, "written", f"{ago_ms(at_ms, at)}: {trigger}")
    for name, value in fields.items():
        for number, one in enumerate(_values(value)):
            add_fact(lines, name if number == 0 else "", one)
    return lines


def _values(value: object) -> list[object]:
    if isinstance(value, list):
        return [
            ", ".join(f"{name} {part}" for name, part in one.items())
            if isinstance(one, dict)
            else one
            for one in value
        ]
    return [] if value is None else [value]


def findings_table(findings: Sequence[Finding]) -> Table:
    """What to do stands under what was found."""
    table = plain_table(Column("CHECK", no_wrap=True), Column("LEVEL", no_wrap=True), "FOUND")
    for one in findings:
        found = Text(plain(one.message))
        if one.todo:
            found.append(f"\n-> {plain(one.todo)}")
        table.add_row(cell(one.check), cell(one.level, _LEVELS[one.level]), found)
    return table
