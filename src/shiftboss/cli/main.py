"""The command `shiftboss`."""

from __future__ import annotations

import io
import sys
from typing import Annotated

import typer

from shiftboss import __version__
from shiftboss.cli.budgets import budget, usage
from shiftboss.cli.bus_workers import worker
from shiftboss.cli.checkpoints import checkpoint
from shiftboss.cli.completion import complete
from shiftboss.cli.demo import demo
from shiftboss.cli.doctor import doctor
from shiftboss.cli.events import events
from shiftboss.cli.failures import failure, resume
from shiftboss.cli.handoffs import handoff
from shiftboss.cli.hook import hook
from shiftboss.cli.init import init
from shiftboss.cli.mcp import mcp
from shiftboss.cli.milestones import milestone
from shiftboss.cli.output import complain
from shiftboss.cli.plans import plan
from shiftboss.cli.policy import policy
from shiftboss.cli.prompts import prompt
from shiftboss.cli.questions import questions
from shiftboss.cli.receipts import receipt
from shiftboss.cli.repos import repo
from shiftboss.cli.run import land, run
from shiftboss.cli.scope import scope
from shiftboss.cli.serve import serve
from shiftboss.cli.status import status
from shiftboss.cli.strategies import strategy
from shiftboss.cli.swarms import swarm
from shiftboss.cli.tasks import task
from shiftboss.cli.verifier import verifier
from shiftboss.cli.waivers import waive
from shiftboss.errors import ShiftbossError

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(init)
app.command()(serve)
app.command()(run)
app.command()(land)
app.add_typer(swarm, name="swarm")
app.add_typer(task, name="task")
app.add_typer(worker, name="worker")
app.add_typer(questions, name="questions")
app.add_typer(handoff, name="handoff")
app.command()(complete)
app.add_typer(scope, name="scope")
app.command()(waive)
app.add_typer(receipt, name="receipt")
app.add_typer(strategy, name="strategy")
app.add_typer(plan, name="plan")
app.add_typer(policy, name="policy")
app.add_typer(repo, name="repo")
app.command()(milestone)
app.command()(failure)
app.command()(resume)
app.command()(prompt)
app.add_typer(checkpoint, name="checkpoint")
app.command()(doctor)
app.command()(verifier)
app.command()(hook)
app.command()(usage)
app.add_typer(budget, name="budget")
app.command()(status)
app.command()(events)
app.command()(mcp)
app.command()(demo)


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
    """Coordinate swarms of AI coding agents: a server, and commands that look at it."""


def main(arguments: list[str] | None = None) -> None:
    """`arguments` instead of those of the command line."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal that cannot show a letter gets its code, not an error.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        app(arguments, prog_name="shiftboss")
    except ShiftbossError as error:
        complain(error)
        sys.exit(1)


if __name__ == "__main__":
    main()
