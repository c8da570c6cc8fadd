"""shiftboss waive: the operator lets one check pass."""

from __future__ import annotations

import getpass
from typing import Annotated

import typer

from shiftboss.cli.bus_calls import OperatorPlaces, ask_as_operator
from shiftboss.cli.client import parsed
from shiftboss.cli.options import (
    DEFAULT_SERVER,
    DEFAULT_SWARM,
    AsJson,
    OperatorTokenFile,
    Server,
    Swarm,
    TaskId,
    TokenFile,
)
from shiftboss.cli.output import print_json, say


def waive(
    task_id: TaskId,
    check: Annotated[
        str,
        typer.Option(
            metavar="CHECK",
            help="ancestry, branch, scope, tests_kept, setup or criterion.",
        ),
    ],
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why; the receipt says it.")],
    subject: Annotated[
        str,
        typer.Option(metavar="TEXT", help="A path or a criterion; all of the check if left out."),
    ] = "*",
    granted_by: Annotated[
        str | None, typer.Option(metavar="WHO", help="Your login name if left out.")
    ] = None,
    swarm: Swarm = DEFAULT_SWARM,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    operator_token_file: OperatorTokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Let one check of a task pass that fails (operator). The receipt names it, and you."""
    said: dict[str, object] = {
        "bead_id": task_id,
        "check": check,
        "subject": subject,
        "reason": reason,
        "granted_by": granted_by or _login_name(),
    }
    places = OperatorPlaces(server, token_file, operator_token_file)
    answer = ask_as_operator(places, "waive", swarm, said, as_json=as_json)
    if as_json:
        print_json(answer)
        return
    told = parsed(answer, "check")
    about = "" if told["subject"] == "*" else f" of {told['subject']}"
    say(f"{told['bead_id']}: {told['check']}{about} need not pass")


def _login_name() -> str | None:
    """None, which leaves it to the server, where the system knows no name."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return None
