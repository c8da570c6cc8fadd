"""shiftboss dispute and handoff amend: a worker says that its contract is wrong, and the operator
changes it."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from shiftboss.cli.commands.handoffs.contract_editing import edited_changes
from shiftboss.cli.common.client import parse_answer
from shiftboss.cli.common.command import Output, ServerSession, server_command
from shiftboss.cli.common.options import Epoch, TaskId, TaskSwarm, WorkerName
from shiftboss.cli.common.output import print_line
from shiftboss.defaults import EVIDENCE_CHARACTERS_MAX
from shiftboss.errors import ShiftbossError

DEFAULT_REASON: Final = "the operator has changed it"


class DisputeKind(StrEnum):
    WRONG = "wrong"
    IMPOSSIBLE = "impossible"


class BadEvidence(ShiftbossError):
    code = "bad_evidence"
    title = "The evidence cannot be used"


@server_command()
def dispute(
    session: ServerSession,
    task_id: TaskId,
    kind: Annotated[
        DisputeKind,
        typer.Option(help="The contract asks for the wrong thing, or cannot be met."),
    ],
    reason: Annotated[str, typer.Option(metavar="TEXT", help="What is wrong with it.")],
    evidence: Annotated[
        str | None, typer.Option(metavar="TEXT", help="What shows it, such as an error.")
    ] = None,
    evidence_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help=f"The same from a file: its last {EVIDENCE_CHARACTERS_MAX:,} characters.",
        ),
    ] = None,
    commit: Annotated[
        str | None,
        typer.Option(metavar="SHA", help="A commit that shows it, such as an honest attempt."),
    ] = None,
    name: WorkerName = None,
    epoch: Epoch = None,
    swarm: TaskSwarm = None,
) -> Output:
    """Say that the contract of a task is wrong or impossible.

    This does not count as a failure: the task waits for the operator's answer and loses no attempt.

    \b
    Example:
      shiftboss dispute bd-1 --kind wrong --reason "The spec says 4, not 3"
    """
    document = session.call(
        "dispute_contract",
        session.swarm_of(task_id, swarm),
        bead_id=task_id,
        kind=kind.value,
        reason=reason,
        evidence=_read_evidence(evidence, evidence_file),
        commit=commit,
        name=name,
        epoch=epoch,
    )

    def view() -> None:
        answer = parse_answer(document, "question_id")
        print_line(
            f"{answer['bead_id']} waits for {answer['contact']}: question {answer['question_id']}. "
            "You may stop here; the answer goes to you or to the next attempt"
        )

    return Output(document, view)


def _read_evidence(text: str | None, file: Path | None) -> str:
    """The end of a file, where the output of a command says what failed."""
    if text is not None and file is not None:
        raise BadEvidence("give --evidence or --evidence-file, not both")
    if file is None:
        return text or ""
    try:
        content = file.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise BadEvidence(f"cannot read {file}: {error.strerror}") from error
    return content.replace("\0", "")[-EVIDENCE_CHARACTERS_MAX:]


@server_command(operator=True)
def amend(
    session: ServerSession,
    task_id: TaskId,
    files: Annotated[
        list[str] | None,
        typer.Option(metavar="PATH", help="Replace the owned files. May be repeated."),
    ] = None,
    readonly: Annotated[
        list[str] | None,
        typer.Option(metavar="PATH", help="Replace the read-only files. May be repeated."),
    ] = None,
    criterion: Annotated[
        list[str] | None,
        typer.Option(metavar="TEXT", help="Replace the criteria. May be repeated."),
    ] = None,
    expectations_change: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATH",
            help="A test of the base whose expectations the task may change. May be repeated.",
        ),
    ] = None,
    reason: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Why; the worker is told.")
    ] = None,
    swarm: TaskSwarm = None,
) -> Output:
    """Change parts of a contract; the rest stays as it is (operator).

    Without options, the contract is opened in your editor. A worker that disputed it continues.

    \b
    Example:
      shiftboss handoff amend bd-1 --criterion "Tests pass: pytest tests/auth"
    """
    swarm_id = session.swarm_of(task_id, swarm)
    given = {
        "files": files,
        "files_readonly": readonly,
        "success_criteria": criterion,
        "expectations_change": expectations_change,
    }
    changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if changes:
        return _amend(session, swarm_id, task_id, changes, reason)
    shown = parse_answer(session.call("show_handoff", swarm_id, bead_id=task_id), "handoff")
    with edited_changes(shown) as changes:
        if not changes:
            return Output.of({"bead_id": task_id}, lambda: print_line("nothing was changed"))
        return _amend(session, swarm_id, task_id, changes, reason)


def _amend(
    session: ServerSession,
    swarm_id: str,
    task_id: str,
    changes: dict[str, Any],
    reason: str | None,
) -> Output:
    amendment = {**changes, "reason": reason or changes.get("reason") or DEFAULT_REASON}
    document = session.call_as_operator("amend_handoff", swarm_id, bead_id=task_id, **amendment)

    def view() -> None:
        answer = parse_answer(document, "version")
        print_line(f"{answer['bead_id']} now has contract version {answer['version']}")

    return Output(document, view)
