"""shiftboss usage and budget: what a swarm has used, and what it may use."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from shiftboss.cli.common.client import parse_answer
from shiftboss.cli.common.command import Output, ServerSession, server_command
from shiftboss.cli.common.open_items import only_swarm_with
from shiftboss.cli.common.options import DEFAULT_SWARM, AnySwarm, TaskSwarm
from shiftboss.cli.common.output import print_line, show
from shiftboss.cli.common.pages import bus_pages, join_pages

budget = typer.Typer(
    help="Limit the tokens and dollars of a task or a swarm.", no_args_is_help=True
)


@server_command()
def usage(session: ServerSession, swarm: AnySwarm = None) -> Output:
    """Show the tokens and dollars that each task used."""
    swarm_id = only_swarm_with(session, "tokens", "used tokens", swarm)
    listing = join_pages(bus_pages(session.client, "show_usage", swarm_id, None), "tasks")
    return Output(json.dumps(listing).encode(), lambda: _show_usage(listing))


def _show_usage(listing: dict[str, Any]) -> None:
    if not listing["tasks"]:
        print_line("no usage yet")
        return
    from shiftboss.cli.views.runs import usage_table

    show(usage_table(listing))


@budget.command("set")
@server_command(operator=True)
def set_budget(
    session: ServerSession,
    task: Annotated[
        str | None, typer.Option(metavar="ID", help="The task. Default: the whole swarm.")
    ] = None,
    tokens: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Tokens, input and output together.")
    ] = None,
    dollars: Annotated[float | None, typer.Option(metavar="X", help="Dollars.")] = None,
    swarm: TaskSwarm = None,
) -> Output:
    """Set what a task or a swarm may use.

    Only the operator may raise a limit. An option that is left out sets no limit.

    \b
    Example:
      shiftboss budget set --swarm login --dollars 20
    """
    swarm_id = session.swarm_of(task, swarm) if task else swarm or DEFAULT_SWARM
    document = session.call_maybe_as_operator(
        "set_budget", "set_budget", swarm_id, bead_id=task, tokens=tokens, dollars=dollars
    )

    def view() -> None:
        answer = parse_answer(document, "budget")
        print_line(f"{task or swarm_id} may use {_limits(answer['budget'])}")
        if answer["over"] is not None:
            print_line("this budget is already used up: no further tasks are assigned")

    return Output(document, view)


def _limits(limits: dict[str, Any]) -> str:
    parts = []
    if limits["tokens"] is not None:
        parts.append(f"{limits['tokens']:,} tokens")
    if limits["dollars"] is not None:
        parts.append(f"${limits['dollars']:,.2f}")
    return " and ".join(parts) or "any amount"
