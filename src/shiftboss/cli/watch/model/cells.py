"""Foreign text as cells of a terminal: never as markup, never as control characters."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style

from shiftboss.cli.common.output import printable

_ELLIPSIS: Final = "…"
_NUMBER: Final = re.compile(r"[-_.][0-9]{1,4}\Z")
# Texts may have thousands of characters: text beyond any screen is cut before it is measured.
_CHARACTERS_MAX: Final = 1000


def fitted(value: object, cells: int, *, right: bool = False) -> str:
    """Exactly so many cells: padded, or cut off with an ellipsis."""
    text = printable(str(value)[:_CHARACTERS_MAX])
    missing = cells - cell_len(text)
    if missing < 0:
        return set_cell_size(text, max(cells - 1, 0)) + _ELLIPSIS[: max(cells, 0)]
    return " " * missing + text if right else text + " " * missing


def fitted_name(name: str, cells: int) -> str:
    """As `fitted`, but the number at the end stays: it tells the workers of a run apart."""
    number = _NUMBER.search(name)
    if number is None or cell_len(printable(name)) <= cells or cells <= 2 * len(number[0]):
        return fitted(name, cells)
    return fitted(name[: number.start()], cells - len(number[0])) + number[0]


@lru_cache(maxsize=64)
def style_of(name: str) -> Style:
    return Style.parse(name)


def segment(value: object, cells: int, style: str = "", *, right: bool = False) -> Segment:
    return Segment(fitted(value, cells, right=right), style_of(style))


def money(dollars: float | None) -> str:
    """`$0.40`, `$12`, `$1.2k`: at most five cells below a million."""
    if not dollars:
        return ""
    if dollars < 10:
        return f"${dollars:.2f}"
    return f"${dollars:,.0f}" if dollars < 1000 else f"${dollars / 1000:.1f}k"


def count(number: int | None) -> str:
    """`950`, `12k`, `3.4M`."""
    if not number:
        return ""
    if number < 1000:
        return str(number)
    return f"{number / 1000:.0f}k" if number < 1_000_000 else f"{number / 1_000_000:.1f}M"
