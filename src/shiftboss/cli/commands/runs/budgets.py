"""shiftboss usage and budget: what a swarm has used, and what it may."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from shiftboss.cli.common.bus_calls import OperatorPlaces, ask_or_operate, call
from shiftboss.cli.common.client import Client, connected, parsed
from shiftboss.cli.common.options import (
    DEFAULT_SERVER,
    DEFAULT_SWARM,
    AsJson,
    OperatorTokenFile,
    Server,
    Swarm,
    TokenFile,
)
from shiftboss.cli.common.output import print_json, say, show

TASKS_PER_PAGE_MAX = 500

budget = typer.Typer(help="Say what a task or a swarm may use.", no_args_is_help=True)


def usage(
    swarm: Swarm = DEFAULT_SWARM,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Show the tokens and dollars that every task and the whole swarm have used."""
    with connected(server, token_file, as_json=as_json) as client:
        listing = _all_pages(client, swarm)
    if as_json:
        print_json(json.dumps(listing).encode())
        return
    if not listing["tasks"]:
        say("nothing was used yet")
        return
    # rich is for those who look at something.
    from shiftboss.cli.views.runs import usage_table

    show(usage_table(listing))


def _all_pages(client: Client, swarm: str) -> dict[str, Any]:
    """Pages as one answer of the same shape."""
    tasks: list[dict[str, Any]] = []
    after = ""
    while True:
        answer = call(client, "show_usage", swarm, after=after, limit=TASKS_PER_PAGE_MAX)
        page = parsed(answer, "next_after")
        tasks += page["tasks"]
        if page["next_after"] is None:
            return page | {"tasks": tasks}
        after = page["next_after"]


@budget.command("set")
def set_budget(
    task: Annotated[
        str | None, typer.Option(metavar="ID", help="Of this task; else of the whole swarm.")
    ] = None,
    tokens: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Tokens, input and output together.")
    ] = None,
    dollars: Annotated[float | None, typer.Option(metavar="X", help="Dollars.")] = None,
    swarm: Swarm = DEFAULT_SWARM,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    operator_token_file: OperatorTokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Limit what may be used; what is left out is not limited. To raise it is the operator's."""
    said: dict[str, object] = {"bead_id": task, "tokens": tokens, "dollars": dollars}
    places = OperatorPlaces(server, token_file, operator_token_file)
    operations = ("set_budget", "set_budget")
    answer = ask_or_operate(places, *operations, swarm, said, as_json=as_json)
    if as_json:
        print_json(answer)
        return
    told = parsed(answer, "budget")
    say(f"{task or swarm} may use {_limits(told['budget'])}")
    if told["over"] is not None:
        say("that is used up already: nothing more of it is handed out")


def _limits(limits: dict[str, Any]) -> str:
    parts = []
    if limits["tokens"] is not None:
        parts.append(f"{limits['tokens']:,} tokens")
    if limits["dollars"] is not None:
        parts.append(f"${limits['dollars']:,.2f}")
    return " and ".join(parts) or "what it needs"
