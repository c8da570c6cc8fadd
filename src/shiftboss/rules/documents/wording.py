"""Wording of messages: suggestions for misspelled names, numbers with units, texts of others."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(misspelled: str, names: Iterable[str]) -> str:
    """The end of a sentence that suggests a similar name; empty if there is none."""
    folded = {name.casefold(): name for name in names}
    near = difflib.get_close_matches(misspelled.casefold(), folded, n=1)
    return f"; did you mean {folded[near[0]]!r}?" if near else ""


def pluralize(count: int, thing: str) -> str:
    """`1 repo`, `2 repos`."""
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"


def format_duration(seconds: int) -> str:
    """`45 seconds`, `1 minute`, `11 minutes`: rounded down."""
    return pluralize(seconds, "second") if seconds < 60 else pluralize(seconds // 60, "minute")


def printable_line(text: str) -> str:
    """A text of somebody else on one line."""
    return " ".join(printable_text(text).split())


def printable_text(text: str) -> str:
    """With a space for everything that could move the cursor, break the line or turn the direction
    of writing."""
    return "".join(char if char.isprintable() else " " for char in text)
