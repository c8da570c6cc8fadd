"""shiftboss task: add, list, show, submit, retry, cancel, import."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from shiftboss.cli.commands.bus.task_import import import_file
from shiftboss.cli.common.client import parse_answer
from shiftboss.cli.common.command import Output, ServerSession, server_command
from shiftboss.cli.common.open_items import show_by_swarm, swarms_with
from shiftboss.cli.common.options import DEFAULT_SWARM, AnySwarm, Swarm, TaskId, TaskSwarm
from shiftboss.cli.common.output import console, print_line, show
from shiftboss.cli.common.pages import bus_pages, join_documents, join_pages
from shiftboss.cli.common.times import now

task = typer.Typer(help="Add, submit, list and control tasks.", no_args_is_help=True)
task.command("import")(import_file)


@task.command()
@server_command()
def add(
    session: ServerSession,
    task_id: TaskId,
    title: Annotated[str, typer.Option(metavar="TEXT", help="The subject, in one line.")],
    description: Annotated[str, typer.Option(metavar="TEXT", help="The work to do.")] = "",
    priority: Annotated[
        int, typer.Option(metavar="N", min=-1000, max=1000, help="Higher goes first.")
    ] = 0,
    depends_on: Annotated[
        list[str] | None,
        typer.Option(metavar="TASK", help="A task that must be done first. May be repeated."),
    ] = None,
    swarm: Swarm = DEFAULT_SWARM,
) -> Output:
    """Add a task, to be submitted later.

    \b
    Example:
      shiftboss task add bd-2 --title "Refresh tokens" --depends-on bd-1
    """
    answer = session.call(
        "add_task",
        swarm,
        bead_id=task_id,
        title=title,
        description=description,
        priority=priority,
        depends_on=depends_on or [],
    )
    return Output(
        answer, lambda: print_line(f"added task {parse_answer(answer, 'bead_id')['bead_id']}")
    )


@task.command("list")
@server_command()
def list_tasks(
    session: ServerSession,
    limit: Annotated[int, typer.Option(metavar="N", min=1, help="How many, by id.")] = 100,
    show_all: Annotated[bool, typer.Option("--all", help="List all of them.")] = False,
    swarm: AnySwarm = None,
) -> Output:
    """List the tasks of a swarm or of all, in the order of their ids."""
    if swarm is None:
        return _tasks_of_all(session, None if show_all else limit)
    pages = bus_pages(session.client, "list_tasks", swarm, None if show_all else limit)
    return Output(join_documents(pages, "tasks"), lambda: _show_list(join_pages(pages, "tasks")))


def _tasks_of_all(session: ServerSession, limit: int | None) -> Output:
    """Of the newest swarms, until there are as many as asked for."""
    listings: dict[str, dict[str, Any]] = {}
    for swarm in swarms_with(session, "total"):
        seen = sum(len(listing["tasks"]) for listing in listings.values())
        left = None if limit is None else limit - seen
        if left is None or left > 0:
            pages = bus_pages(session.client, "list_tasks", swarm, left)
            listings[swarm] = join_pages(pages, "tasks")
    tasks = [task for listing in listings.values() for task in listing["tasks"]]
    is_cut = any(listing["next_after"] is not None for listing in listings.values())

    def view() -> None:
        show_by_swarm(listings, lambda listing: _show_list(listing | {"next_after": None}))
        if is_cut:
            print_line("there are more: shiftboss task list --all")

    return Output.of({"tasks": tasks, "next_after": None, "complete": not is_cut}, view)


def _show_list(listing: dict[str, Any]) -> None:
    if not listing["tasks"]:
        print_line("no tasks; add one with: shiftboss task add first --title 'A first task'")
        return
    from shiftboss.cli.views.bus import tasks_table

    screen = console()
    screen.print(tasks_table(listing["tasks"], now(), screen.width))
    if listing["next_after"] is not None:
        print_line("there are more: shiftboss task list --all")


@task.command("show")
@server_command()
def show_task(session: ServerSession, task_id: TaskId, swarm: TaskSwarm = None) -> Output:
    """Show the state of a task, its worker and its last error."""
    swarm_id = session.swarm_of(task_id, swarm)
    answer = session.call("show_task", swarm_id, bead_id=task_id)
    return Output(answer, lambda: _show_task(parse_answer(answer, "waits_for"), swarm_id))


def _show_task(task_view: dict[str, Any], swarm: str) -> None:
    from shiftboss.cli.views.bus import task_summary
    from shiftboss.cli.views.overview import reason_lines, show_lines
    from shiftboss.rules.tasks.waiting import review_reason

    show(task_summary(task_view, now()))
    review = task_view.get("review")
    if review is not None and review["state"] == "open":
        reason = review_reason(swarm, task_view["bead_id"], review["commit"])
        show_lines(reason_lines([reason._asdict()], with_task=False))


@task.command()
@server_command()
def submit(session: ServerSession, task_id: TaskId, swarm: TaskSwarm = None) -> Output:
    """Assign a task to a free worker, or queue it."""
    answer = session.call("submit_task", session.swarm_of(task_id, swarm), bead_id=task_id)
    return Output(answer, lambda: print_line(_submission(parse_answer(answer, "dispatched"))))


def _submission(answer: dict[str, Any]) -> str:
    if answer["dispatched"]:
        return f"{answer['bead_id']} is assigned to {answer['worker']}"
    if answer.get("status"):
        return f"{answer['bead_id']} is {answer['status']} at {answer['worker']} already"
    if answer.get("waits_for"):
        return f"{answer['bead_id']} waits for {', '.join(answer['waits_for'])}"
    return f"{answer['bead_id']} is queued at position {answer.get('position')}"


@task.command()
@server_command(operator=True)
def retry(session: ServerSession, task_id: TaskId, swarm: TaskSwarm = None) -> Output:
    """Queue a stuck or failed task again, or bring back a cancelled one.

    This ends a running attempt. On the server of a run, only the operator brings back a cancelled
    task.
    """
    swarm_id = session.swarm_of(task_id, swarm)
    document = session.call_maybe_as_operator("retry_task", "retry_task", swarm_id, bead_id=task_id)
    return _with_status(document, session.not_running(swarm_id))


@task.command()
@server_command()
def cancel(
    session: ServerSession,
    task_id: TaskId,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why; shown with the task.")] = "",
    swarm: TaskSwarm = None,
) -> Output:
    """Cancel a task and stop its agent. Tasks that depend on it keep waiting.

    `task retry` brings it back.
    """
    swarm_id = session.swarm_of(task_id, swarm)
    return _with_status(session.call("cancel_task", swarm_id, bead_id=task_id, reason=reason))


def _with_status(document: bytes, not_running: str | None = None) -> Output:
    def view() -> None:
        answer = parse_answer(document, "status")
        suffix = "" if not_running is None else f"; {not_running}"
        print_line(f"{answer['bead_id']} is {answer['status']}{suffix}")

    return Output(document, view)
