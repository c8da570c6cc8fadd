"""shiftboss swarm: create, list, show."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from shiftboss.cli.common.bus_calls import OperatorPlaces, ask, ask_as_operator
from shiftboss.cli.common.client import connected, parsed, swarm_path
from shiftboss.cli.common.options import (
    DEFAULT_SERVER,
    AsJson,
    OperatorTokenFile,
    Server,
    SwarmId,
    TokenFile,
)
from shiftboss.cli.common.output import console, print_json, say, show
from shiftboss.cli.common.pages import joined, swarm_pages
from shiftboss.cli.views.times import now, span
from shiftboss.errors import ShiftbossError

# shiftboss swarm clean: what a complete swarm left behind.


class NotComplete(ShiftbossError):
    code = "not_complete"
    title = "The swarm is not complete"


def clean(
    swarm_id: SwarmId,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print what was removed as JSON.")
    ] = False,
) -> None:
    """Remove the checkpoints that a complete swarm left on this machine."""
    with connected(server, token_file, as_json=as_json) as client:
        status = parsed(client.get(swarm_path(swarm_id, "status")), "workers")
    if status["status"] != "complete":
        raise NotComplete(
            f"swarm {swarm_id} is {status['status']}", hint="its checkpoints are still needed"
        )
    # Only this command pays for the worker's imports.
    from shiftboss.worker.checkpoints import remove_checkpoints

    removed = [str(path) for path in remove_checkpoints(status)]
    if as_json:
        print_json(json.dumps({"removed": removed}).encode())
    else:
        for line in [f"removed {path}" for path in removed] or ["nothing to remove"]:
            say(line)


# shiftboss swarm pause and resume: nothing is handed out for a while.


OfTask = Annotated[
    str | None, typer.Option("--task", metavar="ID", help="This task alone, not the whole swarm.")
]


def pause(
    swarm_id: SwarmId,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why; `status` shows it.")],
    minutes: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="For so long; else until it is resumed."),
    ] = None,
    task: OfTask = None,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Hand out no more tasks. Those that somebody works on go on."""
    until_ms = None if minutes is None else int(now().timestamp() * 1000) + minutes * 60_000
    said: dict[str, object] = {"reason": reason, "until_ms": until_ms, "bead_id": task}
    answer = ask(server, token_file, "pause_swarm", swarm_id, as_json=as_json, **said)
    if as_json:
        print_json(answer)
        return
    until = parsed(answer, "paused")["paused"]["until"]
    left = None if until is None else until / 1000 - now().timestamp()
    say(f"{task or swarm_id} pauses " + (f"for {span(left)}" if left else "until it is resumed"))


def resume(
    swarm_id: SwarmId,
    task: OfTask = None,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    operator_token_file: OperatorTokenFile = None,
    as_json: AsJson = False,
) -> None:
    """End a pause (operator). A budget that is used up is raised with `shiftboss budget set`."""
    places = OperatorPlaces(server, token_file, operator_token_file)
    said: dict[str, object] = {"bead_id": task}
    answer = ask_as_operator(places, "resume_swarm", swarm_id, said, as_json=as_json)
    if as_json:
        print_json(answer)
        return
    changed = parsed(answer, "changed")["changed"]
    say(f"{task or swarm_id} " + ("goes on" if changed else "had no pause; nothing was changed"))


swarm = typer.Typer(help="Create swarms and look at them.", no_args_is_help=True)


@swarm.command()
def create(
    swarm_id: Annotated[
        str | None,
        typer.Option("--id", metavar="ID", help="The id; the server makes one up without it."),
    ] = None,
    feature: Annotated[str, typer.Option(metavar="TEXT", help="What the swarm works on.")] = "",
    manifest_path: Annotated[
        str, typer.Option(metavar="PATH", help="Where the packets are described.")
    ] = "",
    auto_merge: Annotated[
        bool, typer.Option("--auto-merge", help="Note that it may be merged when complete.")
    ] = False,
    workers_expected: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help="Not complete before so many workers have registered."
        ),
    ] = None,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Create a swarm. The same command with the same id again changes nothing."""
    said: dict[str, object] = {
        "swarm_id": swarm_id,
        "feature": feature,
        "manifest_path": manifest_path,
        "auto_merge": auto_merge,
        "workers_expected": workers_expected,
    }
    with connected(server, token_file, as_json=as_json) as client:
        answer = client.post("/swarm/create", said)
    if as_json:
        print_json(answer)
    else:
        say(f"swarm {parsed(answer, 'swarm_id')['swarm_id']}")


@swarm.command("list")
def list_swarms(
    limit: Annotated[int, typer.Option(metavar="N", min=1, help="How many, newest first.")] = 50,
    show_all: Annotated[bool, typer.Option("--all", help="All there are.")] = False,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """List the swarms, newest first."""
    with connected(server, token_file, as_json=as_json) as client:
        pages = swarm_pages(client, None if show_all else limit)
    if as_json:
        print_json(pages[0] if len(pages) == 1 else json.dumps(joined(pages)).encode())
    else:
        _show_list(joined(pages))


def _show_list(listing: dict[str, Any]) -> None:
    if not listing["swarms"]:
        say("no swarms; create one with: shiftboss swarm create")
        return
    # rich is for those who look at something.
    from shiftboss.cli.views.swarms import swarms_table

    show(swarms_table(listing["swarms"], now()))
    if listing["next_before"] is not None:
        say("there are more: shiftboss swarm list --all")


@swarm.command("show")
def show_swarm(
    swarm_id: SwarmId,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Show a swarm with all its workers."""
    with connected(server, token_file, as_json=as_json) as client:
        answer = client.get(swarm_path(swarm_id, "status"))
    if as_json:
        print_json(answer)
        return
    # rich is for those who look at something.
    from shiftboss.cli.views.swarm_summary import swarm_summary
    from shiftboss.cli.views.swarms import workers_table

    status, screen, at = parsed(answer, "workers"), console(), now()
    screen.print(swarm_summary(status, at))
    if status["workers"]:
        screen.print()
        screen.print(workers_table(status["workers"], screen.width, at))


swarm.command()(pause)
swarm.command()(resume)
swarm.command()(clean)
