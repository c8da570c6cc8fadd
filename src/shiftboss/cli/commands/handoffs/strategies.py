"""shiftboss strategy: how to cut a goal into tasks, by what became of earlier ones."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from shiftboss.cli.common.bus_calls import ask
from shiftboss.cli.common.client import parsed
from shiftboss.cli.common.options import (
    DEFAULT_SERVER,
    DEFAULT_SWARM,
    AsJson,
    Server,
    Swarm,
    TokenFile,
)
from shiftboss.cli.common.output import print_json, say, show

strategy = typer.Typer(
    help="See which way of cutting a goal into tasks works.", no_args_is_help=True
)


@strategy.command()
def suggest(
    goal: Annotated[str, typer.Option(metavar="TEXT", help="What is to be cut.")] = "",
    seed: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="The same number, the same choice.")
    ] = None,
    swarm: Swarm = DEFAULT_SWARM,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Choose a strategy for a goal, and say why and what went wrong with it lately."""
    said: dict[str, object] = {"goal": goal, "seed": seed}
    answer = ask(server, token_file, "swarm_plan", swarm, as_json=as_json, **said)
    if as_json:
        print_json(answer)
        return
    plan = parsed(answer, "strategies")
    say(plan["strategy"])
    say(f"because {plan['reason']}")
    for lesson in plan["lessons"]:
        say(f"lesson of {lesson['bead_id']} ({lesson['kind']}): {_what_happened(lesson)}")


def _what_happened(lesson: dict[str, Any]) -> str:
    return "; ".join(lesson["violations"]) or lesson["reason"] or "no reason given"


@strategy.command("list")
def list_strategies(
    swarm: Swarm = DEFAULT_SWARM,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """List the strategies with their records. Old evidence counts less, half after 90 days."""
    answer = ask(server, token_file, "swarm_plan", swarm, as_json=as_json)
    if as_json:
        print_json(answer)
        return
    # rich is for those who look at something.
    from shiftboss.cli.views.handoffs import strategy_table

    show(strategy_table(parsed(answer, "strategies")["strategies"]))
