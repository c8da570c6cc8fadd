"""Contracts, scope requests and owners for people. Imported late: it needs rich."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from rich.table import Column, Table
from rich.text import Text

from shiftboss.cli.output import plain
from shiftboss.cli.tables import Members, cell, plain_table
from shiftboss.cli.times import ago_ms

HASH_CHARACTERS: Final = 12
PATHS_SHOWN_MAX: Final = 40


def handoff_summary(view: Members, at: datetime) -> Table:
    """What is enforced, a line each."""
    contract = view["handoff"]["contract"]
    lines = facts_grid()
    add_fact(lines, "task", view["bead_id"], "bold")
    add_fact(lines, "contract", f"version {view['version']}, {view['hash'][:HASH_CHARACTERS]}")
    add_fact(lines, "made", f"{ago_ms(view['created_at'], at)}: {view['reason']}")
    add_fact(lines, "repo", view["repo"])
    add_fact(lines, "base", view["base_commit"])
    for name in ("branch", "target", "strategy"):
        if view[name]:
            add_fact(lines, name, view[name])
    _add_list(lines, "owns", contract["files_owned"])
    _add_list(lines, "read only", contract["files_readonly"])
    _add_list(lines, "done when", contract["success_criteria"])
    _add_list(lines, "after", contract["dependencies_completed"])
    _add_list(lines, "waived", [_waiver(one) for one in view["waivers"]], "yellow")
    return lines


def facts_grid() -> Table:
    return Table.grid(Column(no_wrap=True), Column(overflow="fold"), padding=(0, 2, 0, 0))


def add_fact(lines: Table, name: str, value: object, style: str = "") -> None:
    lines.add_row(Text(name), Text(plain(value), style=style))


def _add_list(lines: Table, name: str, values: list[str], style: str = "") -> None:
    for number, value in enumerate(values[:PATHS_SHOWN_MAX]):
        add_fact(lines, name if number == 0 else "", value, style)
    if len(values) > PATHS_SHOWN_MAX:
        add_fact(lines, "", f"and {len(values) - PATHS_SHOWN_MAX} more; see --json")


def _waiver(waiver: Members) -> str:
    subject = "" if waiver["subject"] == "*" else f" of {waiver['subject']}"
    return f"{waiver['check']}{subject} by {waiver['granted_by']}: {waiver['reason']}"


def owners_table(holders: list[Members]) -> Table:
    """With `wanted` where somebody asked about paths, else all that they own."""
    asked = "wanted" in holders[0]
    fixed = [Column(name, no_wrap=True) for name in ("TASK", "SWARM")]
    table = plain_table(*fixed, "OWNS", *(["MEETS", "AS IN"] if asked else []))
    for one in holders:
        owned = one["owned"] if asked else ", ".join(one["owned"])
        row = [cell(one["bead_id"]), cell(one["swarm_id"]), Text(plain(owned))]
        row += [Text(plain(one[name])) for name in ("wanted", "example")] if asked else []
        table.add_row(*row)
    return table


def scope_table(requests: list[Members], at: datetime) -> Table:
    """The words in full: somebody has to decide by them."""
    columns = [Column(name, no_wrap=True) for name in ("ID", "TASK", "WORKER", "STATUS", "ASKED")]
    table = plain_table(*columns, "PATHS", "REASON")
    for one in requests:
        table.add_row(
            *(cell(one[name]) for name in ("request_id", "bead_id", "worker", "status")),
            cell(ago_ms(one["asked_at"], at)),
            Text(plain(", ".join(one["paths"]))),
            Text(plain(one["reason"])),
        )
    return table
