"""shiftboss usage and budget: the usage of a swarm, and its limits."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from shiftboss.cli.common.client import parse_answer
from shiftboss.cli.common.command import Output, ServerSession, server_command
from shiftboss.cli.common.open_items import (
    only_swarm_with,
    show_by_swarm,
    swarms_with,
    with_swarm_ids,
)
from shiftboss.cli.common.options import AnySwarm, ItemSwarm
from shiftboss.cli.common.output import print_line, show
from shiftboss.cli.common.pages import bus_pages, join_pages

budget = typer.Typer(
    help="Limit the tokens and dollars of a task or a swarm.", no_args_is_help=True
)


@server_command()
def usage(session: ServerSession, swarm: AnySwarm = None) -> Output:
    """Show the tokens and dollars that each task used."""
    swarms = [swarm] if swarm is not None else swarms_with(session, "tokens")
    listings = {
        name: join_pages(bus_pages(session.client, "show_usage", name, None), "tasks")
        for name in swarms
    }
    answer = listings[swarm] if swarm is not None else _usage_of_all(listings)
    return Output.of(answer, lambda: show_by_swarm(listings, _show_usage))


def _usage_of_all(listings: dict[str, dict[str, Any]]) -> dict[str, object]:
    """`swarm` is the sum of all; `swarms` has what each used and may use."""
    members = ("swarm", "budget", "over")
    return {
        "tasks": with_swarm_ids({name: listing["tasks"] for name, listing in listings.items()}),
        "next_after": None,
        "swarm": _sum([listing["swarm"] for listing in listings.values()]),
        "swarms": [
            {"swarm_id": name} | {member: listing[member] for member in members}
            for name, listing in listings.items()
        ],
    }


def _sum(totals: list[dict[str, Any]]) -> dict[str, Any]:
    return {count: sum(used[count] for used in totals) for count in totals[0]}


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
        str | None, typer.Option(metavar="TASK", help="The task. Default: the whole swarm.")
    ] = None,
    tokens: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Tokens, input and output together.")
    ] = None,
    dollars: Annotated[float | None, typer.Option(metavar="USD", help="Dollars.")] = None,
    swarm: ItemSwarm = None,
) -> Output:
    """Set what a task or a swarm may use.

    Only the operator may raise a limit. A limit that is left out is removed.

    \b
    Example:
      shiftboss budget set --swarm login --dollars 20
    """
    if task is not None:
        swarm_id = session.swarm_of(task, swarm)
    else:
        swarm_id = only_swarm_with(session, "total", "tasks", swarm)
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
