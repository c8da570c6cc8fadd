"""shiftboss claim: the claims that wait for a verdict, and the verifiers that are there."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import typer
from rich.table import Column, Table
from rich.text import Text

from shiftboss.cli.common.client import parse_answer
from shiftboss.cli.common.command import Output, ServerSession, server_command
from shiftboss.cli.common.options import AnySwarm, TaskId, TaskSwarm
from shiftboss.cli.common.output import print_line, printable, show
from shiftboss.cli.common.tables import Members, cell, plain_table
from shiftboss.cli.common.times import ago_ms, now

claim = typer.Typer(
    help="Show the claims that wait for a verdict, and retry a claim.",
    no_args_is_help=True,
)


@claim.command("list")
@server_command()
def list_claims(session: ServerSession, swarm: AnySwarm = None) -> Output:
    """List the claims without a verdict: who verifies each, or why it waits."""
    document = session.call("list_claims", swarm, all_swarms=swarm is None)

    def view() -> None:

        answer = parse_answer(document, "claims")
        if answer["claims"]:
            show(claims_table(answer["claims"], now()))
        else:
            print_line("no claim waits for a verdict")
        print_line(verifiers_line(answer["verifiers"], now()))

    return Output(document, view)


@claim.command("retry")
@server_command(operator=True)
def retry_claim(session: ServerSession, task_id: TaskId, swarm: TaskSwarm = None) -> Output:
    """Retry a claim with every verifier at once (operator).

    For a claim that no verifier could verify, when the cause is fixed.
    """
    swarm_id = session.swarm_of(task_id, swarm)
    document = session.call_as_operator("retry_claim", swarm_id, bead_id=task_id)

    def view() -> None:
        answer = parse_answer(document, "claim_id")
        names = answer["verifiers"]
        there = f"verifiers: {', '.join(names)}" if names else "no verifier is there"
        print_line(f"claim {answer['claim_id']} of {answer['bead_id']} is verified again; {there}")

    return Output(document, view)


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
