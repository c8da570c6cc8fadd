"""shiftboss diff: the work of a task."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from shiftboss.cli.common.client import parse_answer
from shiftboss.cli.common.command import Output, ServerSession, server_command
from shiftboss.cli.common.options import TaskId, TaskSwarm
from shiftboss.cli.common.output import is_terminal, printable
from shiftboss.rules.documents.printable import printable_source

if TYPE_CHECKING:
    from shiftboss.orchestrator.git.task_diff import DiffCommand, TaskWork


_RESET: Final = "\x1b[m"
_BOLD, _RED, _GREEN, _CYAN = "\x1b[1m", "\x1b[31m", "\x1b[32m", "\x1b[36m"
_COLOURS: Final = {"+": _GREEN, "-": _RED, "@": _CYAN}


@server_command(json_help="Print the changed files and the patch as JSON.")
def diff(
    session: ServerSession,
    task_id: TaskId,
    stat: Annotated[
        bool, typer.Option("--stat", help="Only list the changed files, with their sizes.")
    ] = False,
    claim: Annotated[
        bool,
        typer.Option("--claim", help="Show the newest claim, even if it was refused."),
    ] = False,
    swarm: TaskSwarm = None,
) -> Output | None:
    """Show the work of a task: so far, as it was claimed, or as it landed.

    The work so far includes changes that are not committed and new files. It is only read: an agent
    that works there does not notice.

    \b
    Example:
      shiftboss diff login-form --stat
    """
    # For every git of this process: the settings of a repository say how objects are fetched.
    os.environ["GIT_NO_LAZY_FETCH"] = "1"
    swarm_id = session.swarm_of(task_id, swarm)
    handoff = parse_answer(session.call("show_handoff", swarm_id, bead_id=task_id), "repo")
    task = parse_answer(session.call("show_task", swarm_id, bead_id=task_id), "status")
    if session.as_json:
        return asyncio.run(_document(handoff, task, of_claim=claim))
    asyncio.run(_print_diff(handoff, task, of_claim=claim, stat=stat))
    return None


async def _print_diff(
    handoff: dict[str, Any], task: dict[str, Any], *, of_claim: bool, stat: bool
) -> None:
    from shiftboss.orchestrator.git.task_diff import diff_command, find_work

    work = await find_work(handoff, task, of_claim=of_claim)
    head = f"{task['bead_id']}: {work.source}, against {work.old[:12]}"
    print(printable(head), file=sys.stderr, flush=True)
    options = ["--color=never", *(["--stat"] if stat else [])]
    async with diff_command(work) as command:
        run = _show_on_terminal if is_terminal() else _write
        succeeded = await asyncio.to_thread(run, command, options)
    if not succeeded:
        raise typer.Exit(1)


def _write(command: DiffCommand, options: list[str]) -> bool:
    """Git writes to our own output, which is a file or a pipe: every byte counts there."""
    argv = command.argv(*options)
    done = subprocess.run(argv, cwd=command.folder, env=_environment(command), check=False)
    return done.returncode == 0


def _show_on_terminal(command: DiffCommand, options: list[str]) -> bool:
    """Nothing that an agent has written reaches the terminal, or a pager, unchanged."""
    from shiftboss.cli.common.pager import choose_pager, page, users_git_settings

    pager = choose_pager(os.environ, users_git_settings())
    with subprocess.Popen(
        command.argv(*options),
        cwd=command.folder,
        env=_environment(command),
        stdout=subprocess.PIPE,
    ) as git:
        assert git.stdout is not None
        lines = (line.decode(errors="replace").removesuffix("\n") for line in git.stdout)
        colours = not os.environ.get("NO_COLOR") and "--stat" not in options
        is_complete = page(patch_lines(lines, colours=colours), pager)
    return git.returncode == 0 or not is_complete


def _environment(command: DiffCommand) -> dict[str, str]:
    """People read the output, in their own language."""
    environment = command.environment
    del environment["LC_ALL"]
    return environment | ({"LC_ALL": os.environ["LC_ALL"]} if "LC_ALL" in os.environ else {})


async def _document(handoff: dict[str, Any], task: dict[str, Any], *, of_claim: bool) -> Output:
    from shiftboss.orchestrator.git.runner import checked, run_git
    from shiftboss.orchestrator.git.task_diff import diff_command, find_work

    work = await find_work(handoff, task, of_claim=of_claim)
    async with diff_command(work) as command:

        async def run(*options: str) -> str:
            name, *rest = command.arguments
            output = await run_git(
                [name, *options, *rest], command.folder, environment=command.variables
            )
            return checked(output, "the difference")

        files = await run("--numstat", "-z", "--no-renames")
        patch = await run("--color=never")
    return Output.of(_answer(task, work, files, patch))


def _answer(task: dict[str, Any], work: TaskWork, files: str, patch: str) -> dict[str, object]:
    return {
        "bead_id": task["bead_id"],
        "kind": work.kind.replace(" ", "_"),
        "base": work.old,
        "commit": work.new or None,
        "tree": None if work.checkout is None else str(work.checkout.folder),
        "files": [_file(entry) for entry in files.split("\0") if entry],
        "patch": patch.encode(errors="replace").decode(),
    }


def _file(entry: str) -> dict[str, object]:
    """The counts of a binary file are dashes."""
    added, removed, path = entry.split("\t", 2)
    numbers = [int(count) if count.isdigit() else None for count in (added, removed)]
    name = path.encode(errors="replace").decode()
    return {"path": name, "added": numbers[0], "removed": numbers[1]}


def patch_lines(lines: Iterable[str], *, colours: bool) -> Iterator[str]:
    """The lines of git's output with all control characters but tabs made visible."""
    is_head = True
    for line in lines:
        if line.startswith("diff --"):
            is_head = True
        elif line.startswith("@@"):
            is_head = False
        text = printable_source(line)
        colour = _BOLD if is_head else _COLOURS.get(line[:1], "")
        yield f"{colour}{text}{_RESET}" if colours and colour else text
