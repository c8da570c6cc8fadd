"""shiftboss complete: claims that a task is done, and waits for the server's verdict."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any, Final
from uuid import uuid4

import typer

from shiftboss.cli.common.client import Client, RequestRefused, body_of, parse_answer
from shiftboss.cli.common.command import Output, ServerSession, server_command
from shiftboss.cli.common.options import Epoch, TaskId, TaskSwarm, WorkerName
from shiftboss.cli.common.output import print_line, show
from shiftboss.errors import ShiftbossError
from shiftboss.rules.claims.refusal_advice import dispute_command

# Shorter than a command waits for an answer.
WAIT_SECONDS_PER_REQUEST: Final = 20.0


class NotProven(ShiftbossError):
    code = "not_proven"
    title = "The task is not proven to be done"


@server_command()
def complete(
    session: ServerSession,
    task_id: TaskId,
    commit: Annotated[
        str | None, typer.Option(metavar="SHA", help="Default: the tip of the branch.")
    ] = None,
    summary: Annotated[str, typer.Option(metavar="TEXT", help="A summary of the work.")] = "",
    files_touched: Annotated[
        list[str] | None,
        typer.Option(metavar="PATH", help="A file that was changed. May be repeated."),
    ] = None,
    name: WorkerName = None,
    epoch: Epoch = None,
    wait: Annotated[
        float,
        typer.Option(metavar="SECONDS", min=0, max=86_400, help="How long to wait for a verdict."),
    ] = 1800,
    swarm: TaskSwarm = None,
) -> Output:
    """Claim that a task is done; the server verifies the commit.

    \b
    Example:
      shiftboss complete bd-1 --summary "Added refresh tokens"
    """
    swarm_id = session.swarm_of(task_id, swarm)
    claim: dict[str, object] = {
        "bead_id": task_id,
        "commit": commit,
        "summary": summary,
        "files_touched": files_touched or [],
        "name": name,
        "epoch": epoch,
    }
    try:
        with _spinner(f"verifying {task_id}", quiet=session.as_json):
            document = _claim(session.client, swarm_id, claim, wait)
    except RequestRefused as refusal:
        if session.as_json or refusal.problem.get("code") != "contract_violations":
            raise
        raise show_refusal(swarm_id, task_id, refusal.problem) from None
    answer = parse_answer(document, "status")
    if answer["status"] == "accepted":
        return Output(document, lambda: _show_accepted(answer))
    pending = NotProven(
        f"claim {answer['claim_id']} of {answer['bead_id']} is still being verified",
        hint="run the same command again to keep waiting",
    )
    return Output(document, error=pending)


def _claim(client: Client, swarm: str, claim: dict[str, object], wait: float) -> bytes:
    """Repeats the claim until there is a verdict or the time is over. One key makes it one claim,
    even if the server refuses it between two requests."""
    key = uuid4().hex
    ends_at = time.monotonic() + wait
    while True:
        seconds = max(0.0, min(WAIT_SECONDS_PER_REQUEST, ends_at - time.monotonic()))
        body = body_of(swarm, claim | {"wait_ms": round(seconds * 1000)})
        answer = client.post("/bus/swarm_complete", body, key)
        if parse_answer(answer, "status")["status"] != "verifying" or time.monotonic() >= ends_at:
            return answer


@contextmanager
def _spinner(text: str, *, quiet: bool) -> Iterator[None]:
    if quiet or not sys.stderr.isatty():
        yield
        return
    # rich is imported late: it takes 50 ms.
    from rich.console import Console
    from rich.text import Text

    with Console(stderr=True).status(Text(text)):
        yield


def _show_accepted(answer: dict[str, Any]) -> None:
    from shiftboss.cli.views.handoffs import check_lines

    show(*check_lines(answer["checks"]))
    print_line(
        f"{answer['bead_id']} is done: commit {answer['commit']}, receipt {answer['receipt_id']}"
    )


def show_refusal(swarm_id: str, task_id: str, problem: Mapping[str, Any]) -> NotProven:
    """Show every violation. Returns the error that ends the command."""
    from shiftboss.cli.views.handoffs import check_lines, refusal_lines

    checks = problem.get("checks")
    show(*(check_lines(checks) if checks else []), *refusal_lines(problem))
    count = len(problem.get("violations", []))
    return NotProven(
        f"{task_id} was refused: {count} {'violation' if count == 1 else 'violations'}",
        hint="the task is still yours: fix it and complete it again; if the contract is wrong or "
        f"cannot be met: {dispute_command(swarm_id, task_id)}",
    )
