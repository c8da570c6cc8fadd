"""shiftboss doctor: diagnoses everything that a swarm needs, and says how to fix it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shiftboss.cli.common.command import Output, ServerSession, server_command
from shiftboss.cli.common.options import DEFAULT_SWARM, Swarm
from shiftboss.cli.common.output import show
from shiftboss.errors import ShiftbossError

if TYPE_CHECKING:
    from shiftboss.doctor.findings import Finding
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from rich.table import Column, Table
from rich.text import Text

from shiftboss.cli.common.output import printable
from shiftboss.cli.common.tables import cell, plain_table

if TYPE_CHECKING:
    from shiftboss.doctor.findings import Finding


class ProblemsFound(ShiftbossError):
    code = "unwell"
    title = "The doctor found problems"


@server_command(json_help="Print the findings as JSON.", operator=True)
def doctor(
    session: ServerSession,
    policy: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="The policy. Default: shiftboss.yaml of the current folder."
        ),
    ] = None,
    swarm: Swarm = DEFAULT_SWARM,
) -> Output:
    """Diagnose the server, repos, forges, runners, hooks and agents."""
    from shiftboss.doctor.examination import examine

    now_ms = round(time.time() * 1000)
    findings = examine(
        session.client,
        lambda operation: session.call_as_operator(operation, swarm),
        swarm,
        policy,
        now_ms,
        is_offline=session.is_offline,
    )
    counts = {
        level: sum(finding.level == level for finding in findings)
        for level in ("problem", "warning")
    }
    problems = None
    if counts["problem"]:
        problems = ProblemsFound(", ".join(f"{level}s: {count}" for level, count in counts.items()))
    answer = {"findings": [finding._asdict() for finding in findings], **counts}
    return Output.of(answer, lambda: _show(findings), problems)


def _show(findings: list[Finding]) -> None:

    show(findings_table(findings))


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
