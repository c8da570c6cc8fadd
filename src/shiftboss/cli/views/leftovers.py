"""The leftovers of ended runs, as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.table import Column, Table
from rich.text import Text

from shiftboss.cli.common.output import printable
from shiftboss.cli.common.tables import cell, plain_table

if TYPE_CHECKING:
    from shiftboss.orchestrator.leftovers.items import Leftover

_UNITS: Final = ("B", "KB", "MB", "GB", "TB")


def leftovers_table(leftovers: list[Leftover]) -> Table:
    """Names are not cut off: people look at them before they remove them."""
    size = Column("SIZE", no_wrap=True, justify="right")
    table = plain_table(Column("WHAT", no_wrap=True), size, Column("NAME", overflow="fold"), "WHY")
    for leftover in leftovers:
        table.add_row(
            cell(leftover.kind),
            cell(size_text(leftover.size) if leftover.size else ""),
            Text(printable(leftover.name)),
            Text(printable(leftover.why)),
        )
    return table


def size_text(count: float) -> str:
    """`12 KB`: rounded to a whole number of the largest unit that fits."""
    for unit in _UNITS:
        if count < 1000 or unit == _UNITS[-1]:
            break
        count /= 1000
    return f"{count:.0f} {unit}"
