"""shiftboss claim: the claims that wait for a verdict, and the verifiers that are there."""

from __future__ import annotations

import typer

from shiftboss.cli.common.client import parse_answer
from shiftboss.cli.common.command import Output, ServerSession, server_command
from shiftboss.cli.common.options import AnySwarm, TaskId, TaskSwarm
from shiftboss.cli.common.output import print_line, show
from shiftboss.cli.common.times import now

claim = typer.Typer(
    help="Show the claims that wait for a verdict, and let verifiers look again.",
    no_args_is_help=True,
)


@claim.command("list")
@server_command()
def list_claims(session: ServerSession, swarm: AnySwarm = None) -> Output:
    """List the claims without a verdict: who verifies each, or why it waits."""
    document = session.call("list_claims", swarm, all_swarms=swarm is None)

    def view() -> None:
        from shiftboss.cli.views.claims import claims_table, verifiers_line

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
    """Let every verifier look at a claim again at once (operator).

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
