"""shiftboss task import: adds the issues of a beads file as tasks."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shiftboss.cli.common.client import RequestRefused
from shiftboss.cli.common.command import Output, ServerSession, server_command
from shiftboss.cli.common.options import DEFAULT_SWARM, Swarm
from shiftboss.cli.common.output import print_line, printable
from shiftboss.errors import ShiftbossError

if TYPE_CHECKING:
    from shiftboss.protocol.tracker_tasks import TrackerTask
    from shiftboss.tracker.issues import BadLine, IssueFile


class BadFile(ShiftbossError):
    code = "bad_file"
    title = "The file cannot be imported"


@server_command(json_help="Print what was imported as JSON.")
def import_file(
    session: ServerSession,
    file: Annotated[Path, typer.Argument(metavar="FILE.jsonl", help="One issue per line.")],
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Skip lines that cannot be used.")
    ] = False,
    swarm: Swarm = DEFAULT_SWARM,
) -> Output:
    """Add the open issues of a beads file as tasks, with their dependencies.

    Importing the same file again changes nothing.
    """
    issues = read_beads(file)
    tasks = issues.in_order(_tasks_on_server(session, swarm, issues.missing_dependencies()))
    if not skip_bad:
        check_lines(file, issues.bad)
    for task in _with_progress_bar(tasks, quiet=session.as_json):
        _add(session, swarm, task)
    answer = {
        "imported": [task.task_id for task in tasks],
        "done": len(issues.done),
        "skipped": [{"line": bad.number, "error": bad.what} for bad in issues.bad],
    }
    return Output.of(answer, lambda: _show_result(file, issues, len(tasks)))


def read_beads(file: Path) -> IssueFile:
    from shiftboss.tracker.issues import read_issue_file  # imported late: it needs pydantic

    try:
        with file.open("rb") as lines:
            return read_issue_file(lines)
    except OSError as error:
        raise BadFile(f"cannot read {file}: {error.strerror}") from error


def check_lines(file: Path, bad: list[BadLine]) -> None:
    if bad:
        more = f" and {len(bad) - 1} more" if len(bad) > 1 else ""
        raise BadFile(
            f"{file}, line {bad[0].number}: {bad[0].what}{more}; nothing was imported",
            hint="--skip-bad skips such lines",
        )


def _tasks_on_server(session: ServerSession, swarm: str, task_ids: Iterable[str]) -> set[str]:
    """Those of the tasks that the server already has."""
    return {task_id for task_id in task_ids if _is_on_server(session, swarm, task_id)}


def _is_on_server(session: ServerSession, swarm: str, task_id: str) -> bool:
    try:
        session.call("show_task", swarm, bead_id=task_id)
    except RequestRefused as refusal:
        if refusal.problem.get("code") != "unknown_task":
            raise
        return False
    return True


def _with_progress_bar(tasks: list[TrackerTask], *, quiet: bool) -> Iterable[TrackerTask]:
    if quiet or not sys.stderr.isatty():
        return tasks
    # rich is imported late: it takes 50 ms.
    from rich.console import Console
    from rich.progress import track

    return track(tasks, "importing", console=Console(stderr=True), transient=True)


def _add(session: ServerSession, swarm: str, task: TrackerTask) -> None:
    session.call(
        "add_task",
        swarm,
        bead_id=task.task_id,
        title=task.title,
        description=task.description,
        priority=task.priority,
        depends_on=task.depends_on,
    )


def _show_result(file: Path, issues: IssueFile, imported: int) -> None:
    for bad in issues.bad:
        print(printable(f"{file}, line {bad.number}: {bad.what}; skipped"), file=sys.stderr)
    print_line(f"imported {imported}, skipped {len(issues.done)} that are done")
