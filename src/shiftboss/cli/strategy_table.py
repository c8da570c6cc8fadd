"""The records of strategies as a table. Imported late: it needs rich."""

from __future__ import annotations

from rich.table import Column, Table

from shiftboss.cli.tables import Members, cell, plain_table


def strategy_table(strategies: list[Members]) -> Table:
    """The best first. CHANCE is that of a good end, with the range in which it likely lies."""
    numbers = [Column(name, no_wrap=True) for name in ("SAMPLES", "WINS", "LOSSES", "CHANCE")]
    table = plain_table(Column("STRATEGY", no_wrap=True), *numbers)
    for one in sorted(strategies, key=lambda one: (-one["mean"], str(one["strategy"]))):
        table.add_row(
            cell(one["strategy"]),
            cell(one["samples"]),
            cell(f"{one['wins']:.1f}"),
            cell(f"{one['losses']:.1f}"),
            cell(f"{one['mean']:.0%} ({one['low']:.0%} to {one['high']:.0%})"),
        )
    return table
