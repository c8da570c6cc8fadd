"""shiftboss swarm: create, list, show."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from shiftboss.cli.cleaning import clean
from shiftboss.cli.client import parsed, swarm_path
from shiftboss.cli.connection import connected
from shiftboss.cli.listing import joined, swarm_pages
from shiftboss.cli.options import DEFAULT_SERVER, AsJson, Server, SwarmId, TokenFile
from shiftboss.cli.output import console, print_json, say, show
from shiftboss.cli.pauses import pause, resume
from shiftboss.cli.times import now

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
    from shiftboss.cli.tables import swarms_table

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
    from shiftboss.cli.summaries import swarm_summary
    from shiftboss.cli.tables import workers_table

    status, screen, at = parsed(answer, "workers"), console(), now()
    screen.print(swarm_summary(status, at))
    if status["workers"]:
        screen.print()
        screen.print(workers_table(status["workers"], screen.width, at))


swarm.command()(pause)
swarm.command()(resume)
swarm.command()(clean)
