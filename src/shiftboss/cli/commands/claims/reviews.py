"""shiftboss approve and reject: decide about accepted work before it lands."""

from __future__ import annotations

from typing import Annotated

import typer

from shiftboss.cli.common.client import parse_answer
from shiftboss.cli.common.command import Output, ServerSession, server_command
from shiftboss.cli.common.options import TaskId, TaskSwarm, login_name
from shiftboss.cli.common.output import print_line

By = Annotated[
    str | None,
    typer.Option(
        "--by",
        metavar="NAME",
        help="Who decides; recorded in the event. Default: your login name.",
    ),
]
Commit = Annotated[
    str | None,
    typer.Option(metavar="SHA", help="Only if this is the commit in review; a prefix is enough."),
]


@server_command(operator=True)
def approve(
    session: ServerSession,
    task_id: TaskId,
    commit: Commit = None,
    by: By = None,
    swarm: TaskSwarm = None,
) -> Output:
    """Approve accepted work, so that it lands (operator).

    \b
    Example:
      shiftboss approve bd-1 --swarm login
    """
    swarm_id = session.swarm_of(task_id, swarm)
    document = session.call_as_operator(
        "approve", swarm_id, bead_id=task_id, commit=commit, by=by or login_name()
    )

    def view() -> None:
        answer = parse_answer(document, "state")
        print_line(f"{answer['bead_id']} is approved at {answer['commit'][:12]}")

    return Output(document, view)


@server_command(operator=True)
def reject(
    session: ServerSession,
    task_id: TaskId,
    reason: Annotated[
        str, typer.Option(metavar="TEXT", help="What to change; the next attempt gets it.")
    ],
    commit: Commit = None,
    by: By = None,
    swarm: TaskSwarm = None,
) -> Output:
    """Reject accepted work, so that the task is tried again (operator).

    \b
    Example:
      shiftboss reject bd-1 --swarm login --reason "Keep the old name"
    """
    swarm_id = session.swarm_of(task_id, swarm)
    document = session.call_as_operator(
        "reject", swarm_id, bead_id=task_id, reason=reason, commit=commit, by=by or login_name()
    )

    def view() -> None:
        answer = parse_answer(document, "state")
        print_line(f"{answer['bead_id']} is rejected; its commit does not land")

    return Output(document, view)
