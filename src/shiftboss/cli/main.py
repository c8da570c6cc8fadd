"""The command `shiftboss`."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator, MutableMapping
from importlib import import_module
from typing import Annotated, Any, Final

import typer
import typer.main
from typer.core import TyperGroup

from shiftboss import __version__
from shiftboss.cli.common.output import print_error
from shiftboss.cli.examples import with_examples
from shiftboss.errors import ShiftbossError

# The commands of `shiftboss --help`: by panel, in this order. Each is named by its module below
# `shiftboss` and its attribute, and imported when it is used: importing all of them takes longer
# than most commands need to run.
_PANELS: Final[dict[str, dict[str, str]]] = {
    "Run a plan": {
        "init": "cli.commands.runs.init:init",
        "plan": "cli.commands.runs.plans:plan",
        "redteam": "cli.commands.runs.redteam:redteam",
        "run": "cli.commands.runs.run:run",
        "land": "cli.commands.runs.run:land",
        "demo": "demo.command:demo",
    },
    "Watch": {
        "open": "cli.commands.server.open_page:open_page",
        "status": "cli.commands.swarms.status:status",
        "watch": "cli.commands.swarms.watch:watch",
        "why": "cli.commands.bus.why:why",
        "events": "cli.commands.swarms.events:events",
        "replay": "cli.commands.swarms.replay:replay",
        "logs": "cli.commands.runs.logs:logs",
        "diff": "cli.commands.runs.diff:diff",
        "attach": "cli.commands.runs.attach:attach",
        "usage": "cli.commands.runs.budgets:usage",
        "receipt": "cli.commands.claims.receipts:receipt",
        "claim": "cli.commands.claims.claims:claim",
    },
    "Decide": {
        "questions": "cli.commands.bus.workers:questions",
        "approve": "cli.commands.claims.reviews:approve",
        "reject": "cli.commands.claims.reviews:reject",
        "scope": "cli.commands.handoffs.scope:scope",
        "waive": "cli.commands.handoffs.scope:waive",
        "budget": "cli.commands.runs.budgets:budget",
        "resume": "cli.commands.contract.failures:resume",
        "notify": "cli.commands.server.notify:notify",
    },
    "Workers and tasks by hand": {
        "swarm": "cli.commands.swarms.swarms:swarm",
        "task": "cli.commands.bus.tasks:task",
        "worker": "cli.commands.bus.workers:worker",
        "handoff": "cli.commands.handoffs.handoffs:handoff",
        "prompt": "cli.commands.handoffs.handoffs:prompt",
        "complete": "cli.commands.claims.complete:complete",
        "dispute": "cli.commands.handoffs.disputes:dispute",
        "milestone": "cli.commands.contract.milestones:milestone",
        "failure": "cli.commands.contract.failures:failure",
        "checkpoint": "cli.commands.contract.checkpoints:checkpoint",
        "strategy": "cli.commands.handoffs.strategies:strategy",
    },
    "Server and set-up": {
        "doctor": "cli.commands.server.doctor:doctor",
        "conformance": "cli.commands.server.conformance:conformance",
        "clean": "cli.commands.runs.clean:clean",
        "backup": "cli.commands.server.backups:backup",
        "restore": "cli.commands.server.backups:restore",
        "fsck": "cli.commands.server.fsck:fsck",
        "simulate": "cli.commands.server.simulate:simulate",
        "servers": "cli.commands.server.servers:servers",
        "serve": "cli.commands.server.serve:serve",
        "verifier": "cli.commands.server.verifier:verifier",
        "token": "cli.commands.server.tokens:token",
        "policy": "cli.commands.contract.policy:policy",
        "repo": "cli.commands.contract.repos:repo",
        "mcp": "cli.commands.server.mcp:mcp",
        "hook": "cli.commands.server.hook:hook",
    },
}
_PANEL_OF: Final = {name: panel for panel, commands in _PANELS.items() for name in commands}


class _LazyCommands(MutableMapping[str, Any]):
    """The commands by their name. One is imported and built when it is looked up."""

    def __init__(self) -> None:
        self._built: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._built:
            self._built[name] = _build(name, _PANEL_OF[name])
        return self._built[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._built[name] = command

    def __delitem__(self, name: str) -> None:
        del self._built[name]

    def __iter__(self) -> Iterator[str]:
        return iter(_PANEL_OF)

    def __len__(self) -> int:
        return len(_PANEL_OF)


def _build(name: str, panel: str) -> Any:
    module, _, attribute = _PANELS[panel][name].partition(":")
    command = getattr(import_module(f"shiftboss.{module}"), attribute)
    parent = typer.Typer()
    parent.callback()(_nothing)  # else typer would make its only command the whole program
    if isinstance(command, typer.Typer):
        parent.add_typer(command, name=name, rich_help_panel=panel)
    else:
        parent.command(name, rich_help_panel=panel)(command)
    group: Any = typer.main.get_group(parent)
    return with_examples(group.commands[name], name)


def _nothing() -> None:
    pass


class _LazyGroup(TyperGroup):
    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = _LazyCommands()

    def list_commands(self, ctx: object) -> list[str]:  # noqa: ARG002
        return list(self.commands)


app = typer.Typer(
    cls=_LazyGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


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

    \b
    Examples:
      shiftboss demo                     see it work, without an agent
      shiftboss init                     set this repository up
      shiftboss run plan.yaml            run a plan until its work has landed
      shiftboss run plan.yaml --detach   the same, in the background
      shiftboss status                   what runs, what waits, and what it costs
      shiftboss logs login-form -f       what the agent of a task prints
      shiftboss questions list           what agents ask you
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
