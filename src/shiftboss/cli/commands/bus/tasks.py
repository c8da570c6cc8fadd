"""shiftboss task: add, list, show, submit, retry, cancel, import."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from shiftboss.cli.commands.bus.task_import import import_file
from shiftboss.cli.common.bus_calls import ask, joined_tasks, task_pages
from shiftboss.cli.common.client import connected, parsed
from shiftboss.cli.common.options import (
    DEFAULT_SERVER,
    DEFAULT_SWARM,
    AsJson,
    Server,
    Swarm,
    TaskId,
    TokenFile,
)
from shiftboss.cli.common.output import print_json, say, show
from shiftboss.cli.views.times import now

task = typer.Typer(help="Add tasks, hand them out, look at them.", no_args_is_help=True)
task.command("import")(import_file)


@task.command()
def add(
    task_id: TaskId,
    title: Annotated[str, typer.Option(metavar="TEXT", help="What it is about, in a line.")],
    description: Annotated[str, typer.Option(metavar="TEXT", help="What is to be done.")] = "",
    priority: Annotated[
        int, typer.Option(metavar="N", min=-1000, max=1000, help="The higher the sooner.")
    ] = 0,
    depends_on: Annotated[
        list[str] | None,
        typer.Option(metavar="ID", help="A task that must be done first. May be given again."),
    ] = None,
    swarm: Swarm = DEFAULT_SWARM,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Add a task. Nobody works on it before it is submitted."""
    said: dict[str, object] = {
        "bead_id": task_id,
        "title": title,
        "description": description,
        "priority": priority,
        "depends_on": depends_on or [],
    }
    answer = ask(server, token_file, "add_task", swarm, as_json=as_json, **said)
    if as_json:
        print_json(answer)
    else:
        say(f"task {parsed(answer, 'bead_id')['bead_id']}")


@task.command("list")
def list_tasks(
    limit: Annotated[int, typer.Option(metavar="N", min=1, help="How many, by id.")] = 100,
    show_all: Annotated[bool, typer.Option("--all", help="All there are.")] = False,
    swarm: Swarm = DEFAULT_SWARM,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """List the tasks of a swarm, in the order of their ids."""
    with connected(server, token_file, as_json=as_json) as client:
        pages = task_pages(client, swarm, None if show_all else limit)
    if as_json:
        print_json(pages[0] if len(pages) == 1 else json.dumps(joined_tasks(pages)).encode())
    else:
        _show_list(joined_tasks(pages))


def _show_list(listing: dict[str, Any]) -> None:
    if not listing["tasks"]:
        say("no tasks; add one with: shiftboss task add ID --title TEXT")
        return
    # rich is for those who look at something.
    from shiftboss.cli.views.bus import tasks_table

    show(tasks_table(listing["tasks"], now()))
    if listing["next_after"] is not None:
        say("there are more: shiftboss task list --all")


@task.command("show")
def show_task(
    task_id: TaskId,
    swarm: Swarm = DEFAULT_SWARM,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Show a task: where it is, who has it, what went wrong."""
    answer = ask(server, token_file, "show_task", swarm, as_json=as_json, bead_id=task_id)
    if as_json:
        print_json(answer)
        return
    # rich is for those who look at something.
    from shiftboss.cli.views.bus import task_summary

    show(task_summary(parsed(answer, "waits_for"), now()))


@task.command()
def submit(
    task_id: TaskId,
    swarm: Swarm = DEFAULT_SWARM,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Hand a task to a free worker, or queue it."""
    answer = ask(server, token_file, "submit_task", swarm, as_json=as_json, bead_id=task_id)
    if as_json:
        print_json(answer)
    else:
        say(_submitted(parsed(answer, "dispatched")))


def _submitted(answer: dict[str, Any]) -> str:
    if answer["dispatched"]:
        return f"{answer['bead_id']} was given to {answer['worker']}"
    if answer.get("waits_for"):
        return f"{answer['bead_id']} waits for {', '.join(answer['waits_for'])}"
    return f"{answer['bead_id']} is queued at position {answer.get('position')}"


@task.command()
def retry(
    task_id: TaskId,
    swarm: Swarm = DEFAULT_SWARM,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Queue a stuck or failed task again; an attempt that is under way is over."""
    answer = ask(server, token_file, "retry_task", swarm, as_json=as_json, bead_id=task_id)
    _tell_status(answer, as_json=as_json)


@task.command()
def cancel(
    task_id: TaskId,
    swarm: Swarm = DEFAULT_SWARM,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Nobody works on it any more. What depends on it goes on waiting."""
    answer = ask(server, token_file, "cancel_task", swarm, as_json=as_json, bead_id=task_id)
    _tell_status(answer, as_json=as_json)


def _tell_status(answer: bytes, *, as_json: bool) -> None:
    if as_json:
        print_json(answer)
        return
    told = parsed(answer, "status")
    say(f"{told['bead_id']} is {told['status']}")
