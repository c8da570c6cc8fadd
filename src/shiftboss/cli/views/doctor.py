"""The findings of the doctor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from rich.table import Column, Table
from rich.text import Text

from shiftboss.cli.common.output import printable
from shiftboss.cli.common.tables import cell, plain_table

if TYPE_CHECKING:
    from shiftboss.doctor.findings import Finding

_LEVELS: Final = {"ok": "green", "warning": "yellow", "problem": "bold red"}


def findings_table(findings: Sequence[Finding]) -> Table:
    """Below each finding, what to do about it."""
    table = plain_table(Column("CHECK", no_wrap=True), Column("LEVEL", no_wrap=True), "FINDING")
    for finding in findings:
        text = Text(printable(finding.message))
        if finding.todo:
            text.append(f"\n-> {printable(finding.todo)}")
        table.add_row(cell(finding.check), cell(finding.level, _LEVELS[finding.level]), text)
    return table
