"""shiftboss task import: the issues of a beads file as tasks."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from shiftboss.cli.common.bus_calls import call
from shiftboss.cli.common.client import Client, RequestRefused, connected
from shiftboss.cli.common.options import DEFAULT_SERVER, DEFAULT_SWARM, Server, Swarm, TokenFile
from shiftboss.cli.common.output import plain, print_json, say
from shiftboss.errors import ShiftbossError
from shiftboss.protocol.bus import FoundTask
from shiftboss.tracker.issues import BadLine, IssueFile, read_issue_file


class BadFile(ShiftbossError):
    code = "bad_file"
    title = "The file cannot be imported"


def import_file(
    file: Annotated[Path, typer.Argument(metavar="FILE.jsonl", help="One issue per line.")],
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Leave out lines that cannot be used.")
    ] = False,
    swarm: Swarm = DEFAULT_SWARM,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print what was imported as JSON.")
    ] = False,
) -> None:
    """Add the open issues of a beads file as tasks, with their dependencies.

    The same file again changes nothing.
    """
    issues = read_beads(file)
    with connected(server, token_file, as_json=as_json) as client:
        tasks = issues.in_order(_known_here(client, swarm, issues.missing_dependencies()))
        if not skip_bad:
            check_lines(file, issues.bad)
        for task in _with_bar(tasks, quiet=as_json):
            _add(client, swarm, task)
    _report(file, issues, tasks, as_json=as_json)


def read_beads(file: Path) -> IssueFile:
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
            hint="--skip-bad leaves such lines out",
        )


def _known_here(client: Client, swarm: str, task_ids: Iterable[str]) -> set[str]:
    """Those that the server has already."""
    return {one for one in task_ids if _is_known(client, swarm, one)}


def _is_known(client: Client, swarm: str, task_id: str) -> bool:
    try:
        call(client, "show_task", swarm, bead_id=task_id)
    except RequestRefused as refusal:
        if json.loads(refusal.document).get("code") != "unknown_task":
            raise
        return False
    return True


def _with_bar(tasks: list[FoundTask], *, quiet: bool) -> Iterable[FoundTask]:
    if quiet or not sys.stderr.isatty():
        return tasks
    # rich is for those who look at something.
    from rich.console import Console
    from rich.progress import track

    return track(tasks, "importing", console=Console(stderr=True), transient=True)


def _add(client: Client, swarm: str, task: FoundTask) -> None:
    call(
        client,
        "add_task",
        swarm,
        bead_id=task.task_id,
        title=task.title,
        description=task.description,
        priority=task.priority,
        depends_on=task.depends_on,
    )


def _report(file: Path, issues: IssueFile, tasks: list[FoundTask], *, as_json: bool) -> None:
    if as_json:
        skipped = [{"line": one.number, "error": one.what} for one in issues.bad]
        imported = [task.task_id for task in tasks]
        answer = {"imported": imported, "done": len(issues.done), "skipped": skipped}
        print_json(json.dumps(answer).encode())
        return
    for one in issues.bad:
        print(plain(f"{file}, line {one.number}: {one.what}; left out"), file=sys.stderr)
    say(f"imported {len(tasks)}, left out {len(issues.done)} that are done")
