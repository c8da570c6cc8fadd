"""shiftboss swarm: create, list, show, pause, resume, clean, delete."""

from __future__ import annotations

import shlex
from typing import Annotated, Any, Final

import typer

from shiftboss.cli.commands.swarms.status import swarm_usage
from shiftboss.cli.common.client import parse_answer, swarm_path
from shiftboss.cli.common.command import Output, ServerSession, server_command
from shiftboss.cli.common.open_items import only_swarm, unfinished_swarm
from shiftboss.cli.common.options import OnlySwarmId, SwarmId
from shiftboss.cli.common.output import console, print_line
from shiftboss.cli.common.pages import bus_pages, join_documents, join_pages, swarm_pages
from shiftboss.cli.common.times import now, span
from shiftboss.errors import ShiftbossError
from shiftboss.rules.documents.wording import pluralize

TASKS_SHOWN_MAX: Final = 100

swarm = typer.Typer(help="Create, list, show, pause and delete swarms.", no_args_is_help=True)

OnlyTask = Annotated[
    str | None, typer.Option("--task", metavar="TASK", help="Only this task, not the whole swarm.")
]

UnfinishedSwarm = Annotated[
    str | None,
    typer.Argument(metavar="SWARM", help="The swarm. Default: the only one with unfinished work."),
]


class NotComplete(ShiftbossError):
    code = "not_complete"
    title = "The swarm is not complete"


@swarm.command()
@server_command()
def create(
    session: ServerSession,
    swarm_id: Annotated[
        str | None,
        typer.Option("--id", metavar="SWARM", help="The id. Default: the server generates one."),
    ] = None,
    feature: Annotated[str, typer.Option(metavar="TEXT", help="The goal of the swarm.")] = "",
    manifest_path: Annotated[
        str, typer.Option(metavar="PATH", help="The file that describes the packets.")
    ] = "",
    auto_merge: Annotated[
        bool, typer.Option("--auto-merge", help="Note that it may be merged when complete.")
    ] = False,
    workers_expected: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Complete only after N workers have registered."),
    ] = None,
) -> Output:
    """Create a swarm. Repeating the command with the same id changes nothing."""
    answer = session.client.post(
        "/swarm/create",
        {
            "swarm_id": swarm_id,
            "feature": feature,
            "manifest_path": manifest_path,
            "auto_merge": auto_merge,
            "workers_expected": workers_expected,
        },
    )
    return Output(
        answer, lambda: print_line(f"swarm {parse_answer(answer, 'swarm_id')['swarm_id']}")
    )


@swarm.command("list")
@server_command()
def list_swarms(
    session: ServerSession,
    limit: Annotated[int, typer.Option(metavar="N", min=1, help="How many, newest first.")] = 50,
    show_all: Annotated[bool, typer.Option("--all", help="List all of them.")] = False,
) -> Output:
    """List the swarms, newest first."""
    pages = swarm_pages(session.client, None if show_all else limit)
    return Output(join_documents(pages, "swarms"), lambda: _show_list(join_pages(pages, "swarms")))


def _show_list(listing: dict[str, Any]) -> None:
    if not listing["swarms"]:
        print_line("no swarms; create one with: shiftboss swarm create")
        return
    from shiftboss.cli.views.swarms import swarms_table

    screen = console()
    screen.print(swarms_table(listing["swarms"], now(), screen.width))
    if listing["next_before"] is not None:
        print_line("there are more: shiftboss swarm list --all")


@swarm.command("show")
@server_command()
def show_swarm(session: ServerSession, swarm_id: OnlySwarmId = None) -> Output:
    """Show a swarm with its tasks and packets, and what waits."""
    swarm_id = only_swarm(session, swarm_id)
    answer = parse_answer(session.client.get(swarm_path(swarm_id, "status")), "workers")
    pages = bus_pages(session.client, "list_tasks", swarm_id, TASKS_SHOWN_MAX)
    listing = join_pages(pages, "tasks")

    def view() -> None:
        from shiftboss.cli.views.bus import tasks_table
        from shiftboss.cli.views.overview import reason_lines, show_lines
        from shiftboss.cli.views.swarms import swarm_summary, workers_table

        screen, at = console(), now()
        screen.print(swarm_summary(answer, swarm_usage(session, swarm_id), at))
        show_lines(reason_lines(answer["waiting"]))
        if listing["tasks"]:
            screen.print()
            screen.print(tasks_table(listing["tasks"], at, screen.width))
        if listing["next_after"] is not None:
            print_line(f"there are more: shiftboss task list --all --swarm {swarm_id}")
        if answer["workers"]:
            screen.print()
            screen.print(workers_table(answer["workers"], screen.width, at))

    return Output.of(answer | {"tasks": listing["tasks"]}, view)


@swarm.command()
@server_command()
def pause(
    session: ServerSession,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why; shown by `status`.")],
    swarm_id: UnfinishedSwarm = None,
    minutes: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="How long. Default: until it is resumed."),
    ] = None,
    task: OnlyTask = None,
) -> Output:
    """Stop assigning tasks. Running tasks continue.

    \b
    Example:
      shiftboss swarm pause login --reason lunch --minutes 45
    """
    swarm = _swarm_to_hold(session, swarm_id, task)
    until_ms = None if minutes is None else int(now().timestamp() * 1000) + minutes * 60_000
    answer = session.call("pause_swarm", swarm, reason=reason, until_ms=until_ms, bead_id=task)

    def view() -> None:
        until = parse_answer(answer, "paused")["paused"]["until"]
        left = None if until is None else until / 1000 - now().timestamp()
        end = f"for {span(left)}" if left else "until it is resumed"
        resume_command = [
            "shiftboss",
            "swarm",
            "resume",
            swarm,
            *(["--task", task] if task else []),
        ]
        print_line(f"{task or swarm} is paused {end}; resume it: {shlex.join(resume_command)}")

    return Output(answer, view)


@swarm.command()
@server_command(operator=True)
def resume(
    session: ServerSession, swarm_id: UnfinishedSwarm = None, task: OnlyTask = None
) -> Output:
    """End a pause of a swarm (operator).

    With --task, the task also no longer waits for the answer to its question. A halt after a
    failure is lifted by `shiftboss resume`; an exhausted budget is raised by
    `shiftboss budget set`.
    """
    swarm = _swarm_to_hold(session, swarm_id, task)
    answer = session.call_as_operator("resume_swarm", swarm, bead_id=task)

    def view() -> None:
        changed = parse_answer(answer, "changed")["changed"]
        print_line(f"{task or swarm} " + ("is resumed" if changed else "was not paused"))

    return Output(answer, view)


def _swarm_to_hold(session: ServerSession, swarm_id: str | None, task: str | None) -> str:
    if swarm_id is None and task is None:
        return unfinished_swarm(session)
    return swarm_id or session.swarm_of(task or "", None)


@swarm.command()
@server_command(json_help="Print what was removed as JSON.")
def clean(session: ServerSession, swarm_id: SwarmId) -> Output:
    """Remove the checkpoints that a complete swarm left on this machine."""
    status = parse_answer(session.client.get(swarm_path(swarm_id, "status")), "workers")
    if status["status"] != "complete":
        raise NotComplete(
            f"swarm {swarm_id} is {status['status']}", hint="its checkpoints are still needed"
        )
    from shiftboss.worker.checkpoints import remove_checkpoints

    removed = [str(path) for path in remove_checkpoints(status)]

    def view() -> None:
        for line in [f"removed {path}" for path in removed] or ["nothing to remove"]:
            print_line(line)

    return Output.of({"removed": removed}, view)


@swarm.command()
@server_command(operator=True)
def delete(
    session: ServerSession,
    swarm_id: SwarmId,
    apply: Annotated[bool, typer.Option("--apply", help="Delete it.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Delete it even if its work is not over.")
    ] = False,
) -> Output:
    """Show what a swarm has, and delete it with --apply (operator).

    Its tasks, packets, questions and events are deleted from the database. Its receipts stay, and
    so does what is in git: see `shiftboss clean`. A swarm whose work is not over needs --force:
    reports of its workers are refused afterwards. The default swarm begins anew.

    \b
    Example:
      shiftboss swarm delete login
      shiftboss swarm delete login --apply
    """
    answer = session.call_as_operator("delete_swarm", swarm_id, force=force, dry_run=not apply)
    return Output(answer, lambda: _show_deletion(parse_answer(answer, "live"), force=force))


def _show_deletion(answer: dict[str, Any], *, force: bool) -> None:
    swarm_id = answer["swarm_id"]
    contents = f"{pluralize(answer['tasks'], 'task')}, {pluralize(answer['packets'], 'packet')}"
    if answer["deleted"]:
        print_line(f"deleted {swarm_id}: {contents}")
        return
    print_line(f"{swarm_id}: {contents}, last event {answer['last_event_id']}")
    if answer["live"]:
        print_line(f"not over: {', '.join(answer['live'])}")
    needs_force = ["--force"] if answer["live"] or force else []
    command = ["shiftboss", "swarm", "delete", swarm_id, "--apply", *needs_force]
    print_line(f"nothing was deleted; to delete it: {shlex.join(command)}")
