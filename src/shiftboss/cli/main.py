"""The command `shiftboss`."""

from __future__ import annotations

import io
import sys
from typing import Annotated, Final

import typer
from typer.core import TyperGroup

from shiftboss import __version__
from shiftboss.cli.commands.bus.tasks import task
from shiftboss.cli.commands.bus.why import why
from shiftboss.cli.commands.bus.workers import questions, worker
from shiftboss.cli.commands.claims.complete import complete
from shiftboss.cli.commands.claims.receipts import receipt
from shiftboss.cli.commands.claims.reviews import approve, reject
from shiftboss.cli.commands.contract.checkpoints import checkpoint
from shiftboss.cli.commands.contract.failures import failure, resume
from shiftboss.cli.commands.contract.milestones import milestone
from shiftboss.cli.commands.contract.policy import policy
from shiftboss.cli.commands.contract.repos import repo
from shiftboss.cli.commands.handoffs.handoffs import handoff, prompt
from shiftboss.cli.commands.handoffs.scope import scope, waive
from shiftboss.cli.commands.handoffs.strategies import strategy
from shiftboss.cli.commands.runs.budgets import budget, usage
from shiftboss.cli.commands.runs.init import init
from shiftboss.cli.commands.runs.plans import plan
from shiftboss.cli.commands.runs.run import land, run
from shiftboss.cli.commands.server.doctor import doctor
from shiftboss.cli.commands.server.hook import hook
from shiftboss.cli.commands.server.mcp import mcp
from shiftboss.cli.commands.server.serve import serve
from shiftboss.cli.commands.server.verifier import verifier
from shiftboss.cli.commands.swarms.events import events
from shiftboss.cli.commands.swarms.status import status
from shiftboss.cli.commands.swarms.swarms import swarm
from shiftboss.cli.common.command import Command
from shiftboss.cli.common.output import print_error
from shiftboss.demo.command import demo
from shiftboss.errors import ShiftbossError

# The commands of `shiftboss --help`: by panel, in this order.
_PANELS: Final[dict[str, dict[str, Command | typer.Typer]]] = {
    "Getting started": {"init": init, "demo": demo, "doctor": doctor},
    "Plans and runs": {"plan": plan, "run": run, "land": land},
    "Progress and cost": {
        "status": status,
        "why": why,
        "events": events,
        "usage": usage,
        "budget": budget,
    },
    "Swarms, tasks and workers": {
        "swarm": swarm,
        "task": task,
        "worker": worker,
        "questions": questions,
    },
    "Contracts, claims and receipts": {
        "handoff": handoff,
        "prompt": prompt,
        "scope": scope,
        "complete": complete,
        "waive": waive,
        "approve": approve,
        "reject": reject,
        "receipt": receipt,
        "strategy": strategy,
    },
    "Repos and CI": {
        "policy": policy,
        "repo": repo,
        "milestone": milestone,
        "failure": failure,
        "resume": resume,
        "checkpoint": checkpoint,
    },
    "Servers and integrations": {
        "serve": serve,
        "verifier": verifier,
        "mcp": mcp,
        "hook": hook,
    },
}


class _OrderedGroup(TyperGroup):
    """typer would list the commands of groups after all others."""

    def list_commands(self, ctx: object) -> list[str]:  # noqa: ARG002
        return [name for commands in _PANELS.values() for name in commands]


app = typer.Typer(
    cls=_OrderedGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for _panel, _commands in _PANELS.items():
    for _name, _command in _commands.items():
        if isinstance(_command, typer.Typer):
            app.add_typer(_command, name=_name, rich_help_panel=_panel)
        else:
            app.command(_name, rich_help_panel=_panel)(_command)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"shiftboss {__version__}")
        raise typer.Exit


@app.callback()
def shiftboss(
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Coordinate swarms of AI coding agents. Done is proven, not claimed.

    To try it: shiftboss demo. To run a plan: shiftboss run plan.yaml.
    """


def main(arguments: list[str] | None = None) -> None:
    """`arguments` replace those of the command line."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A character that the terminal cannot encode is shown as its code.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        app(arguments, prog_name="shiftboss")
    except ShiftbossError as error:
        print_error(error)
        sys.exit(1)


if __name__ == "__main__":
    main()
