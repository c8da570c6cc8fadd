"""Writes what was measured into the docs: tables between two marks of the page, and a plot."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from bench.peers.plot import draw
from bench.peers.results import Results
from bench.peers.tables import tables

PAGE: Final = "comparison.md"
PLOT: Final = "comparison.svg"
_BEGIN: Final = "<!-- measured: make bench-peers -->"
_END: Final = "<!-- end of what was measured -->"


def write(results: Results, docs: Path | None) -> None:
    """To standard output without a folder of documents."""
    text = tables(results)
    if docs is None:
        sys.stdout.write(text)
        return
    page = docs / PAGE
    page.write_text(between_marks(page.read_text(), text))
    (docs / PLOT).write_text(draw(results))


def between_marks(page: str, text: str) -> str:
    """The page with this text in place of what is between its marks."""
    before, begin, rest = page.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not begin or not end:
        raise ValueError(f"the page lacks {_BEGIN} or {_END}")
    return f"{before}{begin}\n\n{text}\n{end}{after}"
