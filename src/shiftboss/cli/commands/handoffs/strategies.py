"""shiftboss strategy: which way of splitting a goal into tasks has worked so far."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from shiftboss.cli.common.client import parse_answer
from shiftboss.cli.common.command import Output, ServerSession, server_command
from shiftboss.cli.common.options import DEFAULT_SWARM, Swarm
from shiftboss.cli.common.output import print_line, show

strategy = typer.Typer(
    help="Compare strategies for splitting a goal into tasks.", no_args_is_help=True
)


@strategy.command()
@server_command()
def suggest(
    session: ServerSession,
    goal: Annotated[str, typer.Option(metavar="TEXT", help="The goal to split.")] = "",
    seed: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="The same seed gives the same choice.")
    ] = None,
    swarm: Swarm = DEFAULT_SWARM,
) -> Output:
    """Suggest a strategy for a goal, with the reason and the lessons of recent failures."""
    answer = session.call("swarm_plan", swarm, goal=goal, seed=seed)
    return Output(answer, lambda: _show_suggestion(parse_answer(answer, "strategies")))


def _show_suggestion(plan: dict[str, Any]) -> None:
    print_line(plan["strategy"])
    print_line(f"because {plan['reason']}")
    for lesson in plan["lessons"]:
        reason = "; ".join(lesson["violations"]) or lesson["reason"] or "no reason given"
        print_line(f"lesson of {lesson['bead_id']} ({lesson['kind']}): {reason}")


@strategy.command("list")
@server_command()
def list_strategies(session: ServerSession, swarm: Swarm = DEFAULT_SWARM) -> Output:
    """List the strategies with their success rates.

    Older results count less: after 90 days, half.
    """
    answer = session.call("swarm_plan", swarm)
    return Output(
        answer, lambda: _show_strategies(parse_answer(answer, "strategies")["strategies"])
    )


def _show_strategies(strategies: list[dict[str, Any]]) -> None:
    from shiftboss.cli.views.handoffs import strategy_table

    show(strategy_table(strategies))
