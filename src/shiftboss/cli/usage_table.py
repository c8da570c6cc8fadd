"""What was used, as a table. Imported late: it needs rich."""

from __future__ import annotations

from rich.table import Column, Table

from shiftboss.cli.tables import Members, cell, plain_table

_NUMBERS = ("INPUT", "OUTPUT", "CACHED", "DOLLARS", "BUDGET")


def usage_table(listing: Members) -> Table:
    """A row per task, and one for all of them."""
    table = plain_table(
        Column("TASK", no_wrap=True),
        *(Column(name, no_wrap=True, justify="right") for name in _NUMBERS),
        "",
    )
    for one in listing["tasks"]:
        _add(table, one["bead_id"], one["used"], one)
    _add(table, "all", listing["swarm"], listing, style="bold")
    return table


def _add(table: Table, name: str, used: Members, limits: Members, style: str = "") -> None:
    table.add_row(
        cell(name, style),
        *(cell(f"{used[count]:,}") for count in ("input_tokens", "output_tokens", "cached_tokens")),
        cell(_dollars(used)),
        cell(_budget(limits["budget"])),
        cell("used up" if limits["over"] else "", "bold red"),
    )


def _dollars(used: Members) -> str:
    """Of some tokens nobody may know the price."""
    known = f"${used['dollars']:,.2f}"
    return f"{known} and {used['unpriced_tokens']:,} tokens" if used["unpriced_tokens"] else known


def _budget(budget: Members | None) -> str:
    if budget is None:
        return ""
    tokens, dollars = budget["tokens"], budget["dollars"]
    parts = [f"{tokens:,}"] if tokens is not None else []
    parts += [f"${dollars:,.2f}"] if dollars is not None else []
    return ", ".join(parts)
