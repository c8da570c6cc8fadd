"""Options and arguments that several commands share."""

from __future__ import annotations

import getpass
import os
from pathlib import Path
from typing import Annotated, Final

import typer

from shiftboss.defaults import ADDRESS, CA_VARIABLE

ServerUrl = Annotated[
    str | None,
    typer.Option(
        "--server",
        envvar="SHIFTBOSS_URL",
        metavar="URL[,URL]",
        help="The address of the server, or several of servers on one database. Default: the "
        f"server of .shiftboss here or in a parent folder, else {ADDRESS}.",
    ),
]
TokenFile = Annotated[
    Path | None,
    typer.Option(
        "--token-file",
        metavar="FILE",
        help="A file with the server's token (mode 600). Without it, the token comes from "
        "SHIFTBOSS_TOKEN, or from the file that SHIFTBOSS_TOKEN_FILE names.",
    ),
]


def _export_ca(file: Path | None) -> Path | None:
    """All clients of this process and of those it starts, such as agents and hooks, trust it."""
    if file is not None:
        os.environ[CA_VARIABLE] = str(file.absolute())
    return file


CaFile = Annotated[
    Path | None,
    typer.Option(
        "--ca",
        envvar=CA_VARIABLE,
        metavar="FILE",
        callback=_export_ca,
        help="Trust only the authorities in this PEM file for https://. "
        "Default: those of the system, or of SSL_CERT_FILE.",
    ),
]
OperatorTokenFile = Annotated[
    Path | None,
    typer.Option(
        "--operator-token-file",
        metavar="FILE",
        help="A file with the operator's token (mode 600). Without it, the token comes from "
        "SHIFTBOSS_OPERATOR_TOKEN, or from .shiftboss/operator-token here or in a parent folder.",
    ),
]
# This swarm of the bus always exists.
DEFAULT_SWARM: Final = "default"
Swarm = Annotated[str, typer.Option("--swarm", metavar="SWARM", help="The swarm.")]
# Of a command that takes a task: `session.swarm_of(task_id, swarm)` finds the swarm.
TaskSwarm = Annotated[
    str | None,
    typer.Option(
        "--swarm",
        metavar="SWARM",
        help="The swarm of the task. Needed only if several have a task of this id.",
    ),
]
# Of a command that takes a number, the name of a worker, or nothing.
ItemSwarm = Annotated[
    str | None,
    typer.Option("--swarm", metavar="SWARM", help="The swarm. Needed only if several match."),
]
# Of a command that lists: without it, all swarms are listed.
AnySwarm = Annotated[
    str | None,
    typer.Option(
        "--swarm", metavar="SWARM", help="Only this swarm. Default: all with something to list."
    ),
]
TaskId = Annotated[str, typer.Argument(metavar="TASK", help="The id of the task.")]
SwarmId = Annotated[str, typer.Argument(metavar="SWARM", help="The id of the swarm.")]
OnlySwarmId = Annotated[
    str | None,
    typer.Argument(metavar="SWARM", help="The id of the swarm. Default: the only one."),
]
PlanFile = Annotated[Path, typer.Argument(metavar="PLAN", help="The plan, a YAML file.")]
WorkerName = Annotated[
    str | None, typer.Option("--name", metavar="NAME", help="The worker that reports.")
]
Epoch = Annotated[int | None, typer.Option(metavar="N", min=1, help="The number of the attempt.")]


def login_name() -> str | None:
    """None if the system knows no name; the server then chooses one."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return None
