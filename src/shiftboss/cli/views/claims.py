"""Claims without a verdict, and verifiers."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from rich.table import Column, Table
from rich.text import Text

from shiftboss.cli.common.output import printable
from shiftboss.cli.common.tables import Members, cell, plain_table
from shiftboss.cli.common.times import ago_ms


def claims_table(claims: Sequence[Members], at: datetime) -> Table:
    columns = [Column(name, no_wrap=True) for name in ("TASK", "SWARM", "CLAIM", "MADE", "STATE")]
    table = plain_table(*columns, "VERIFIER OR REASON")
    for claim in claims:
        is_stuck = claim["escalated_at"] is not None and claim["state"] == "waiting"
        table.add_row(
            *(cell(claim[name]) for name in ("bead_id", "swarm_id", "claim_id")),
            cell(ago_ms(claim["asked_at"], at)),
            cell("stuck", "bold red") if is_stuck else cell(claim["state"]),
            Text(printable(claim_holder(claim, at))),
        )
    return table


def claim_holder(claim: Members, at: datetime) -> str:
    """Which verifier works on the claim and since when, or why it waits."""
    if claim["why"] is not None:
        return str(claim["why"])
    since = "" if claim["taken_at"] is None else f", since {ago_ms(claim['taken_at'], at)}"
    return f"{claim['verifier']}{since}"


def verifiers_line(verifiers: Sequence[Members], at: datetime) -> str:
    if not verifiers:
        return "no verifier is there; start one: shiftboss verifier"
    seen = [f"{each['name']} (seen {ago_ms(each['seen_at'], at)})" for each in verifiers]
    return f"verifiers: {', '.join(seen)}"
