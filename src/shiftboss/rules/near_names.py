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
