"""shiftboss doctor: what is wrong with all that a swarm needs, and what to do about it."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shiftboss.cli.common.client import Client
from shiftboss.cli.common.options import DEFAULT_SERVER, DEFAULT_SWARM, Server, Swarm, TokenFile
from shiftboss.cli.common.output import print_json, show
from shiftboss.cli.common.tokens import read_token
from shiftboss.errors import ShiftbossError

if TYPE_CHECKING:
    from shiftboss.doctor.findings import Finding


class ProblemsFound(ShiftbossError):
    code = "unwell"
    title = "The doctor has found problems"


def doctor(
    policy: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The policy; shiftboss.yaml of this folder if left out."),
    ] = None,
    swarm: Swarm = DEFAULT_SWARM,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Look at the server, its queues, git, the repos, forges, runners, hooks and agents."""
    # Only this command pays for all that it looks with.
    from shiftboss.doctor.examination import examine

    client = Client(server, read_token(token_file))
    findings = examine(client, swarm, policy, round(time.time() * 1000))
    counts = {
        level: sum(one.level == level for one in findings) for level in ("problem", "warning")
    }
    if as_json:
        told = [one._asdict() for one in findings]
        print_json(json.dumps({"findings": told, **counts}).encode())
    else:
        _show(findings)
    if counts["problem"] and as_json:
        raise typer.Exit(1)
    if counts["problem"]:
        raise ProblemsFound(", ".join(f"{level}s: {count}" for level, count in counts.items()))


def _show(findings: list[Finding]) -> None:
    # rich is for those who look at something.
    from shiftboss.cli.views.contract import findings_table

    show(findings_table(findings))
