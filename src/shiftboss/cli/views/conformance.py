"""The results of the conformance kit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from shiftboss.cli.common.output import printable

if TYPE_CHECKING:
    from rich.table import Table

    from shiftboss.conformance.checks import Result

_MARKS: Final = {"holds": "✓", "broken": "✗", "not_offered": "–", "not_checked": "–"}
_WORDS: Final = {"not_offered": "not offered", "not_checked": "not checked"}


def result_lines(result: Result) -> Iterator[str]:
    """`✓ 001 BUS-02 registers: It registers ...`, and below a failure what was seen."""
    check = result.check
    line = f"{_MARKS[result.outcome]} {check.document} {check.promise} {check.name}: {check.text}"
    reason = printable(result.reason)
    if result.outcome in _WORDS:
        line += f" ({_WORDS[result.outcome]}: {reason})"
    yield line
    if result.outcome == "broken":
        yield f"    {reason}" + ("" if check.required else " (recommended, not required)")
        yield from (f"    | {printable(seen)}" for seen in result.wire)


def summary(results: Sequence[Result]) -> str:
    from shiftboss.conformance.checks import counts

    outcomes = counts(results)
    failures = sum(result.is_failure for result in results)
    text = f"{outcomes['holds']} hold, {failures} do not"
    if outcomes["broken"] > failures:
        text += f", {outcomes['broken'] - failures} only recommended do not"
    for name, words in _WORDS.items():
        if outcomes[name]:
            text += f", {outcomes[name]} {words}"
    return f"{text}; {sum(result.seconds for result in results):.0f} s"


def checks_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    from shiftboss.cli.common.tables import cell, plain_table

    table = plain_table("SUBJECT", "DOCUMENT", "PROMISE", "CHECK", "WHAT HOLDS")
    for row in rows:
        text = row["text"] if row["required"] else f"{row['text']} (recommended)"
        names = ("subject", "document", "promise", "check")
        table.add_row(*(cell(row[name]) for name in names), cell(text))
    return table
