"""A guess at the name that somebody meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(said: str, known: Iterable[str]) -> str:
    """The end of a sentence; empty when nothing is near."""
    names = list(known)
    folded = {name.casefold(): name for name in names}
    near = difflib.get_close_matches(said.casefold(), folded, n=1)
    return f"; did you mean {folded[near[0]]!r}?" if near else ""


# Numbers in sentences.


def how_many(count: int, thing: str) -> str:
    """`1 repo`, `2 repos`."""
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"


def how_long(seconds: int) -> str:
    """`45 seconds`, `1 minute`, `11 minutes`: rounded down."""
    return how_many(seconds, "second") if seconds < 60 else how_many(seconds // 60, "minute")
