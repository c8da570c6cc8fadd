"""shiftboss complete: say that a task is done, and see what the server makes of it."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any, Final
from uuid import uuid4

import typer

from shiftboss.cli.common.bus_calls import body_of
from shiftboss.cli.common.client import Client, RequestRefused, connected, parsed
from shiftboss.cli.common.options import (
    DEFAULT_SERVER,
    DEFAULT_SWARM,
    AsJson,
    Epoch,
    Server,
    Swarm,
    TaskId,
    TokenFile,
    WorkerName,
)
from shiftboss.cli.common.output import print_json, say, show
from shiftboss.errors import ShiftbossError

# Shorter than a command waits for an answer.
ONE_WAIT_SECONDS: Final = 20.0


class NotProven(ShiftbossError):
    code = "not_proven"
    title = "The task is not proven to be done"


def complete(
    task_id: TaskId,
    commit: Annotated[
        str | None, typer.Option(metavar="SHA", help="The tip of the branch if left out.")
    ] = None,
    summary: Annotated[str, typer.Option(metavar="TEXT", help="What was done.")] = "",
    files_touched: Annotated[
        list[str] | None,
        typer.Option(metavar="PATH", help="A file that was changed. May be given again."),
    ] = None,
    name: WorkerName = None,
    epoch: Epoch = None,
    wait: Annotated[
        float,
        typer.Option(metavar="SECONDS", min=0, max=86_400, help="How long to wait for a verdict."),
    ] = 1800,
    swarm: Swarm = DEFAULT_SWARM,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Say that a task is done. The server looks at the commit, and accepts or refuses it."""
    said: dict[str, object] = {
        "bead_id": task_id,
        "commit": commit,
        "summary": summary,
        "files_touched": files_touched or [],
        "name": name,
        "epoch": epoch,
    }
    with connected(server, token_file, as_json=as_json) as client:
        try:
            with _spinner(f"verifying {task_id}", quiet=as_json):
                answer = _verdict(client, swarm, said, wait)
        except RequestRefused as refusal:
            if as_json or refusal.problem.get("code") != "contract_violations":
                raise
            raise refused(task_id, refusal.problem) from None
    _tell(answer, as_json=as_json)


def _verdict(client: Client, swarm: str, said: dict[str, object], wait: float) -> bytes:
    """Under one key the same words are one claim, also when it has been refused between two."""
    key = uuid4().hex
    ends_at = time.monotonic() + wait
    while True:
        seconds = max(0.0, min(ONE_WAIT_SECONDS, ends_at - time.monotonic()))
        body = body_of(swarm, said | {"wait_ms": round(seconds * 1000)})
        answer = client.post("/bus/swarm_complete", body, key)
        if parsed(answer, "status")["status"] != "verifying" or time.monotonic() >= ends_at:
            return answer


@contextmanager
def _spinner(text: str, *, quiet: bool) -> Iterator[None]:
    if quiet or not sys.stderr.isatty():
        yield
        return
    # rich is for those who look at something.
    from rich.console import Console
    from rich.text import Text

    with Console(stderr=True).status(Text(text)):
        yield


def _tell(answer: bytes, *, as_json: bool) -> None:
    told = parsed(answer, "status")
    if as_json:
        print_json(answer)
    if told["status"] == "accepted":
        if not as_json:
            _show_accepted(told)
        return
    if as_json:
        raise typer.Exit(1)
    raise NotProven(
        f"claim {told['claim_id']} of {told['bead_id']} is still being verified",
        hint="the same command again waits on",
    )


def _show_accepted(told: dict[str, Any]) -> None:
    # rich is for those who look at something.
    from shiftboss.cli.views.handoffs import checks_table

    show(checks_table(told["checks"]))
    say(f"{told['bead_id']} is done: commit {told['commit']}, receipt {told['receipt_id']}")


def refused(task_id: str, problem: Mapping[str, Any]) -> NotProven:
    """Shows every violation."""
    # rich is for those who look at something.
    from shiftboss.cli.views.handoffs import checks_table, refusal_lines

    checks = problem.get("checks")
    show(*([checks_table(checks)] if checks else []), *refusal_lines(problem))
    count = len(problem.get("violations", []))
    return NotProven(
        f"{task_id} was refused: {count} {'violation' if count == 1 else 'violations'}",
        hint="it is still yours: mend it and complete it again",
    )
