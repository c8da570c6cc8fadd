"""The building blocks of all tables."""

from __future__ import annotations

from typing import Any, Final

from rich.table import Column, Table
from rich.text import Text

from shiftboss.cli.common.output import is_terminal, printable

Members = dict[str, Any]

# Below this width, lists have only the most important columns.
WIDE_COLUMNS_MIN: Final = 60


def cell(value: object, style: str = "") -> Text:
    """One line, cut off with an ellipsis if it does not fit."""
    return Text(printable(value), style=style, no_wrap=True, overflow="ellipsis")


def plain_table(*columns: Column | str, gap: int = 2) -> Table:
    return Table(*columns, box=None, padding=(0, gap, 0, 0), header_style="bold", pad_edge=False)


def column_of(cells_max: int, name: str) -> Column:
    """A column with at most so many cells on a terminal. In a pipe nothing is cut off."""
    return Column(name, no_wrap=True, max_width=cells_max if is_terminal() else None)


def facts_grid() -> Table:
    return Table.grid(Column(no_wrap=True), Column(overflow="fold"), padding=(0, 2, 0, 0))


def add_fact(lines: Table, name: str, value: object, style: str = "") -> None:
    lines.add_row(Text(name), Text(printable(value), style=style))
