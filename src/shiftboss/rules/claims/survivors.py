"""The mutants that no test noticed, as people and agents read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

SURVIVORS_SHOWN_MAX: Final = 10


def survivor_lines(check: Mapping[str, Any]) -> list[str]:
    """A line for each change that the tests of a check do not notice, and how many more there are.
    The check is one of a verdict or of a receipt, as JSON."""
    mutants, count = _mutants(check)
    survivors = [mutant for mutant in mutants if mutant.get("killed_by") is None]
    lines = [
        f"{mutant['path']} line {mutant['line']}: {mutant['change']}"
        for mutant in survivors[:SURVIVORS_SHOWN_MAX]
    ]
    more = max(count, len(survivors)) - len(lines)
    return [*lines, f"and {more} more"] if more else lines


def _mutants(check: Mapping[str, Any]) -> tuple[Sequence[Mapping[str, Any]], int]:
    """Those that are listed, and how many survived in all."""
    mutants = check.get("mutants") or []
    if isinstance(mutants, Mapping):
        return mutants["listed"], mutants["total"] - mutants["killed"]
    totals = check.get("mutant_totals")
    return mutants, totals["tried"] - totals["killed"] if totals else 0
