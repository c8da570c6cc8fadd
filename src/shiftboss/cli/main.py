"""The command `shiftboss`."""

from __future__ import annotations

import io
import sys
from typing import Annotated

import typer

from shiftboss import __version__
from shiftboss.cli.commands.bus.tasks import task
from shiftboss.cli.commands.bus.workers import questions, worker
from shiftboss.cli.commands.claims.complete import complete
from shiftboss.cli.commands.claims.receipts import receipt
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
from shiftboss.cli.common.output import complain
from shiftboss.demo.command import demo
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
