"""shiftboss failure and resume: reports a failure, and lifts the halt that it may have caused."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from shiftboss.cli.common.client import parse_answer
from shiftboss.cli.common.command import Output, ServerSession, server_command
from shiftboss.cli.common.options import DEFAULT_SWARM, Epoch, TaskId, TaskSwarm, WorkerName
from shiftboss.cli.common.output import print_line


@server_command()
def failure(
    session: ServerSession,
    task_id: TaskId,
    message: Annotated[str, typer.Argument(metavar="MESSAGE", help="What went wrong.")],
    error_type: Annotated[
        str | None,
        typer.Option(
            "--type", metavar="TYPE", help="Such as network_timeout. Default: from the message."
        ),
    ] = None,
    tool: Annotated[
        str | None, typer.Option(metavar="TOOL", help="The tool that was denied.")
    ] = None,
    operation: Annotated[
        str | None, typer.Option(metavar="TEXT", help="What the tool was needed for.")
    ] = None,
    name: WorkerName = None,
    epoch: Epoch = None,
    swarm: TaskSwarm = None,
) -> Output:
    """Report a failure; the answer says to retry, fix, wait or stop."""
    answer = session.call(
        "report_failure",
        session.swarm_of(task_id, swarm),
        bead_id=task_id,
        message=message,
        error_type=error_type,
        tool=tool,
        operation=operation,
        name=name,
        epoch=epoch,
    )
    return Output(answer, lambda: _show_failure(parse_answer(answer, "failure_class")))


def _show_failure(answer: dict[str, Any]) -> None:
    count = f"{answer['attempts']} in a row"
    print_line(f"{answer['bead_id']}: {answer['failure_class']}, {count}: {_next_action(answer)}")
    print_line(answer["message"])


def _next_action(answer: dict[str, Any]) -> str:
    """The action and its consequences. An answer has only the members that apply."""
    parts = [answer["action"]]
    if answer.get("retry_in_seconds") is not None:
        parts.append(f"in {answer['retry_in_seconds']} s")
    if answer.get("halt_id") is not None:
        parts.append(f"(halt {answer['halt_id']})")
    if answer.get("question_id") is not None:
        parts.append(f"(question {answer['question_id']})")
    return " ".join(parts)


@server_command(operator=True)
def resume(
    session: ServerSession,
    halt_id: Annotated[int, typer.Argument(metavar="N", min=1, help="The number of the halt.")],
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why; recorded in the event.")],
) -> Output:
    """Lift a halt after a failure, so that work on its repos starts again (operator).

    A pause of a swarm is ended by `shiftboss swarm resume`.
    """
    answer = session.call_as_operator("resume", DEFAULT_SWARM, halt_id=halt_id, reason=reason)

    def view() -> None:
        changed = parse_answer(answer, "changed")["changed"]
        print_line(f"halt {halt_id} " + ("is lifted" if changed else "was already lifted"))

    return Output(answer, view)
