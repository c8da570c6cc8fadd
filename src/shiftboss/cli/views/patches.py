"""A patch on a terminal: coloured here, because colours in it may come from an agent's files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from shiftboss.rules.documents.printable import printable_source

_RESET: Final = "\x1b[m"
_BOLD, _RED, _GREEN, _CYAN = "\x1b[1m", "\x1b[31m", "\x1b[32m", "\x1b[36m"
_COLOURS: Final = {"+": _GREEN, "-": _RED, "@": _CYAN}


def patch_lines(lines: Iterable[str], *, colours: bool) -> Iterator[str]:
    """The lines of git's output with all control characters but tabs made visible."""
    is_head = True
    for line in lines:
        if line.startswith("diff --"):
            is_head = True
        elif line.startswith("@@"):
            is_head = False
        text = printable_source(line)
        colour = _BOLD if is_head else _COLOURS.get(line[:1], "")
        yield f"{colour}{text}{_RESET}" if colours and colour else text
