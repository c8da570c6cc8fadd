"""shiftboss scope and waive: requests for more files, and waivers of checks."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from shiftboss.cli.common.client import parse_answer
from shiftboss.cli.common.command import Output, ServerSession, server_command
from shiftboss.cli.common.open_items import (
    list_by_swarm,
    show_by_swarm,
    swarm_of_scope_request,
    with_swarm_ids,
)
from shiftboss.cli.common.options import (
    DEFAULT_SWARM,
    AnySwarm,
    Epoch,
    ItemSwarm,
    TaskId,
    TaskSwarm,
    WorkerName,
    login_name,
)
from shiftboss.cli.common.output import print_line, show
from shiftboss.cli.common.times import now

scope = typer.Typer(
    help="Request files outside a contract, and decide on requests.", no_args_is_help=True
)

RequestId = Annotated[int, typer.Argument(metavar="N", min=1, help="The number of the request.")]
Note = Annotated[str, typer.Option(metavar="TEXT", help="A note to the worker.")]


@scope.command()
@server_command()
def request(
    session: ServerSession,
    task_id: TaskId,
    paths: Annotated[list[str], typer.Argument(metavar="PATH...", help="The files needed.")],
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why they are needed.")],
    name: WorkerName = None,
    epoch: Epoch = None,
    swarm: TaskSwarm = None,
) -> Output:
    """Request more files for a task.

    Files that no task owns are granted at once if the policy allows it.

    \b
    Example:
      shiftboss scope request bd-1 src/config.py --reason "It sets the lifetime"
    """
    answer = session.call(
        "request_scope",
        session.swarm_of(task_id, swarm),
        bead_id=task_id,
        paths=paths,
        reason=reason,
        name=name,
        epoch=epoch,
    )
    return Output(answer, lambda: _show_request(parse_answer(answer, "request_id")))


def _show_request(answer: dict[str, Any]) -> None:
    if answer["status"] == "granted":
        print_line(_granted(answer["bead_id"], answer["contract_version"]))
        return
    for holder in answer.get("holders", []):
        print_line(f"{holder['bead_id']} owns {holder['owned']}")
    print_line(
        f"scope request {answer['request_id']} waits for a decision; "
        "do not change these files until then"
    )


def _granted(task_id: str, version: int) -> str:
    return f"granted: {task_id} now has contract version {version}"


@scope.command("list")
@server_command()
def list_requests(
    session: ServerSession,
    show_all: Annotated[
        bool, typer.Option("--all", help="Include decided requests, newest first.")
    ] = False,
    swarm: AnySwarm = None,
) -> Output:
    """List the open requests, oldest first."""
    nothing = "no scope requests" if show_all else "no open scope requests"
    if swarm is None:
        return _requests_of_all(session, nothing, only_open=not show_all)
    answer = session.call("list_scope_requests", swarm, only_open=not show_all)
    return Output(answer, lambda: _show_list(parse_answer(answer, "requests")["requests"], nothing))


def _requests_of_all(session: ServerSession, nothing: str, *, only_open: bool) -> Output:
    listed = list_by_swarm(
        session, "list_scope_requests", "requests", "scope_requests", only_open=only_open
    )

    def view() -> None:
        show_by_swarm(listed or {DEFAULT_SWARM: []}, lambda rows: _show_list(rows, nothing))

    return Output.of({"requests": with_swarm_ids(listed)}, view)


def _show_list(requests: list[dict[str, Any]], nothing: str) -> None:
    if not requests:
        print_line(nothing)
        return
    from shiftboss.cli.views.handoffs import scope_table

    show(scope_table(requests, now()))


@scope.command()
@server_command(operator=True)
def grant(
    session: ServerSession, request_id: RequestId, note: Note = "", swarm: ItemSwarm = None
) -> Output:
    """Grant the requested files to the task (operator)."""
    return _decide(session, swarm, request_id, note, granted=True)


@scope.command()
@server_command(operator=True)
def refuse(
    session: ServerSession, request_id: RequestId, note: Note = "", swarm: ItemSwarm = None
) -> Output:
    """Refuse the requested files (operator)."""
    return _decide(session, swarm, request_id, note, granted=False)


def _decide(
    session: ServerSession, swarm: str | None, request_id: int, note: str, *, granted: bool
) -> Output:
    swarm_id = swarm_of_scope_request(session, request_id, swarm)
    document = session.call_as_operator(
        "decide_scope", swarm_id, request_id=request_id, granted=granted, decision=note
    )

    def view() -> None:
        answer = parse_answer(document, "request_id")
        if granted:
            print_line(_granted(answer["bead_id"], answer["contract_version"]))
        else:
            print_line(f"refused: {answer['bead_id']} does not get {', '.join(answer['paths'])}")

    return Output(document, view)


@server_command(operator=True)
def waive(
    session: ServerSession,
    task_id: TaskId,
    check: Annotated[
        str,
        typer.Option(
            metavar="CHECK",
            help="Any check of a verdict but commit, such as scope, tests_kept or mutants.",
        ),
    ],
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why; recorded in the receipt.")],
    subject: Annotated[
        str,
        typer.Option(metavar="TEXT", help="A path or a criterion. Default: the whole check."),
    ] = "*",
    granted_by: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Who decides; recorded in the receipt. Default: your login name."
        ),
    ] = None,
    swarm: TaskSwarm = None,
) -> Output:
    """Waive a failing check of a task (operator).

    The receipt names the check and who waived it.

    \b
    Example:
      shiftboss waive bd-1 --check tests_kept --reason "They moved to core"
    """
    document = session.call_as_operator(
        "waive",
        session.swarm_of(task_id, swarm),
        bead_id=task_id,
        check=check,
        subject=subject,
        reason=reason,
        granted_by=granted_by or login_name(),
    )

    def view() -> None:
        answer = parse_answer(document, "check")
        subject_text = "" if answer["subject"] == "*" else f" of {answer['subject']}"
        print_line(f"{answer['bead_id']}: {answer['check']}{subject_text} is waived")

    return Output(document, view)
