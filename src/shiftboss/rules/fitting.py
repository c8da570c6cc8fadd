"""A verdict that fits into a request."""

from __future__ import annotations

from typing import Final

from shiftboss.protocol.verdicts import Verdict, Violation

# A request has 256 KiB.
VERDICT_BYTES_MAX: Final = 240 * 1024
# How much is kept of each output, and how many changes and violations: first all, then less.
_STEPS: Final = ((65_536, 1000), (8192, 1000), (2048, 300), (512, 100), (100, 20))


def fitting(verdict: Verdict, bytes_max: int = VERDICT_BYTES_MAX) -> Verdict:
    """The same verdict with shorter evidence, where it would be too long."""
    for characters, entries in _STEPS:
        shorter = _cut(verdict, characters, entries)
        if len(shorter.model_dump_json().encode()) <= bytes_max:
            break
    return shorter


def _cut(verdict: Verdict, characters: int, entries: int) -> Verdict:
    checks = [
        check.model_copy(update={"output_tail": check.output_tail[-characters:]})
        if check.output_tail is not None
        else check
        for check in verdict.checks
    ]
    return verdict.model_copy(
        update={
            "checks": checks,
            "changes": verdict.changes[:entries],
            "violations": _first(verdict.violations, entries),
        }
    )


def _first(violations: list[Violation], entries: int) -> list[Violation]:
    left_out = len(violations) - entries
    if left_out <= 0:
        return violations
    more = Violation(
        check=violations[entries].check,
        message=f"and {left_out} more violations",
        hint="mend those that are named, then claim again",
    )
    return [*violations[:entries], more]
