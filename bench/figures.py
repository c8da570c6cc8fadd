"""Measured figures with their goals, and the table that shows them."""

from __future__ import annotations

from typing import NamedTuple

from rich.console import Console
from rich.table import Table


class Figure(NamedTuple):
    name: str
    value: float
    unit: str
    at_least: float | None = None
    at_most: float | None = None

    @property
    def goal(self) -> str:
        if self.at_least is not None:
            return f"at least {self.at_least:g} {self.unit}".strip()
        if self.at_most is not None:
            return f"at most {self.at_most:g} {self.unit}".strip()
        return ""

    @property
    def met(self) -> bool:
        low_enough = self.at_most is None or self.value <= self.at_most
        return low_enough and (self.at_least is None or self.value >= self.at_least)


def show(figures: list[Figure]) -> None:
    table = Table("figure", "measured", "goal", "")
    for figure in figures:
        digits = 0 if figure.value >= 1000 else 2
        measured = f"{figure.value:,.{digits}f} {figure.unit}".strip()
        mark = "" if not figure.goal else ("met" if figure.met else "MISSED")
        table.add_row(figure.name, measured, figure.goal, mark)
    Console().print(table)
