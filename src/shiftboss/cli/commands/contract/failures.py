"""shiftboss failure and resume: what went wrong, and the operator's word that it is mended."""

from __future__ import annotations

from typing import Annotated, Any

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
from shiftboss.cli.common.output import print_json, say


def failure(
    task_id: TaskId,
    message: Annotated[str, typer.Argument(metavar="MESSAGE", help="What went wrong.")],
    error_type: Annotated[
        str | None,
        typer.Option("--type", metavar="T", help="Such as network_timeout; else by the words."),
    ] = None,
    tool: Annotated[
        str | None, typer.Option(metavar="TOOL", help="The tool that was denied.")
    ] = None,
    operation: Annotated[
        str | None, typer.Option(metavar="TEXT", help="What it was wanted for.")
    ] = None,
    name: WorkerName = None,
    epoch: Epoch = None,
    swarm: Swarm = DEFAULT_SWARM,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Say what went wrong; the answer says whether to retry, fix, wait or stop."""
    said: dict[str, object] = {
        "bead_id": task_id,
        "message": message,
        "error_type": error_type,
        "tool": tool,
        "operation": operation,
        "name": name,
        "epoch": epoch,
    }
    answer = ask(server, token_file, "report_failure", swarm, as_json=as_json, **said)
    if as_json:
        print_json(answer)
        return
    told = parsed(answer, "failure_class")
    say(f"{told['bead_id']}: {told['failure_class']}, {told['attempts']} in a row: {_next(told)}")
    say(told["message"])


def _next(told: dict[str, Any]) -> str:
    """The action with what it led to; what says nothing is left out of an answer."""
    parts = [told["action"]]
    if told.get("retry_in_seconds") is not None:
        parts.append(f"in {told['retry_in_seconds']} s")
    if told.get("halt_id") is not None:
        parts.append(f"(halt {told['halt_id']})")
    if told.get("question_id") is not None:
        parts.append(f"(question {told['question_id']})")
    return " ".join(parts)


def resume(
    halt_id: Annotated[int, typer.Argument(metavar="HALT", min=1, help="The id of the halt.")],
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why; the event says it.")],
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    operator_token_file: OperatorTokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Lift a halt, so that its repos can be worked on again (operator)."""
    said: dict[str, object] = {"halt_id": halt_id, "reason": reason}
    places = OperatorPlaces(server, token_file, operator_token_file)
    answer = ask_as_operator(places, "resume", DEFAULT_SWARM, said, as_json=as_json)
    if as_json:
        print_json(answer)
        return
    changed = parsed(answer, "changed")["changed"]
    say(f"halt {halt_id} {'is lifted' if changed else 'was lifted before; nothing was changed'}")
