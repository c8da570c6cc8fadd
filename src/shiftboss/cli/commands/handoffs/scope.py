"""shiftboss scope: files beside the contract, asked for and decided."""

from __future__ import annotations

import getpass
from typing import Annotated

import typer

from shiftboss.cli.common.bus_calls import OperatorPlaces, ask, ask_as_operator
from shiftboss.cli.common.client import parsed
from shiftboss.cli.common.options import (
    DEFAULT_SERVER,
    DEFAULT_SWARM,
    AsJson,
    Epoch,
    OperatorTokenFile,
    Server,
    Swarm,
    TaskId,
    TokenFile,
    WorkerName,
)
from shiftboss.cli.common.output import print_json, say, show
from shiftboss.cli.views.times import now

scope = typer.Typer(
    help="Ask for files beside a contract, and decide about them.", no_args_is_help=True
)

RequestId = Annotated[int, typer.Argument(metavar="ID", min=1, help="The scope request.")]
Note = Annotated[str, typer.Option(metavar="TEXT", help="What the worker is told.")]


@scope.command()
def request(
    task_id: TaskId,
    paths: Annotated[list[str], typer.Argument(metavar="PATH...", help="What is needed.")],
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why it is needed.")],
    name: WorkerName = None,
    epoch: Epoch = None,
    swarm: Swarm = DEFAULT_SWARM,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Ask for more files. Granted at once where nobody owns them and the policy allows it."""
    said: dict[str, object] = {
        "bead_id": task_id,
        "paths": paths,
        "reason": reason,
        "name": name,
        "epoch": epoch,
    }
    answer = ask(server, token_file, "request_scope", swarm, as_json=as_json, **said)
    if as_json:
        print_json(answer)
        return
    told = parsed(answer, "request_id")
    if told["status"] == "granted":
        say(_granted(told["bead_id"], told["contract_version"]))
        return
    for holder in told.get("holders", []):
        say(f"{holder['bead_id']} owns {holder['owned']}")
    say(
        f"scope request {told['request_id']} waits for a decision; leave the files alone until then"
    )


def _granted(task_id: str, version: int) -> str:
    return f"granted: {task_id} has contract version {version} now"


@scope.command("list")
def list_requests(
    show_all: Annotated[
        bool, typer.Option("--all", help="Also those that were decided, newest first.")
    ] = False,
    swarm: Swarm = DEFAULT_SWARM,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """List the open requests, oldest first."""
    answer = ask(
        server, token_file, "list_scope_requests", swarm, as_json=as_json, only_open=not show_all
    )
    if as_json:
        print_json(answer)
        return
    found = parsed(answer, "requests")["requests"]
    if not found:
        say("no scope requests" if show_all else "no open scope requests")
        return
    # rich is for those who look at something.
    from shiftboss.cli.views.handoffs import scope_table

    show(scope_table(found, now()))


@scope.command()
def grant(
    request_id: RequestId,
    note: Note = "",
    swarm: Swarm = DEFAULT_SWARM,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    operator_token_file: OperatorTokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Give the files to the task that asked for them (operator)."""
    places = OperatorPlaces(server, token_file, operator_token_file)
    _decide(places, swarm, request_id, note, granted=True, as_json=as_json)


@scope.command()
def refuse(
    request_id: RequestId,
    note: Note = "",
    swarm: Swarm = DEFAULT_SWARM,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    operator_token_file: OperatorTokenFile = None,
    as_json: AsJson = False,
) -> None:
    """The task has to do without them (operator)."""
    places = OperatorPlaces(server, token_file, operator_token_file)
    _decide(places, swarm, request_id, note, granted=False, as_json=as_json)


def _decide(
    places: OperatorPlaces,
    swarm: str,
    request_id: int,
    note: str,
    *,
    granted: bool,
    as_json: bool,
) -> None:
    said: dict[str, object] = {"request_id": request_id, "granted": granted, "decision": note}
    answer = ask_as_operator(places, "decide_scope", swarm, said, as_json=as_json)
    if as_json:
        print_json(answer)
        return
    told = parsed(answer, "request_id")
    if granted:
        say(_granted(told["bead_id"], told["contract_version"]))
    else:
        say(f"refused: {told['bead_id']} goes on without {', '.join(told['paths'])}")


# shiftboss waive: the operator lets one check pass.


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
