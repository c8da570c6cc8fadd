"""shiftboss status: how it goes, in a few lines."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from shiftboss.cli.common.client import Client, connected, parsed, swarm_path
from shiftboss.cli.common.options import DEFAULT_SERVER, AsJson, Server, TokenFile
from shiftboss.cli.common.output import print_json, say, show
from shiftboss.cli.common.pages import PAGE_SWARMS_MAX, joined, swarm_pages
from shiftboss.cli.views.times import now, span


def status(
    swarm_id: Annotated[
        str | None, typer.Argument(metavar="ID", help="A swarm; the whole server without it.")
    ] = None,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Show how a swarm goes, or how the server is and which swarms are running."""
    with connected(server, token_file, as_json=as_json) as client:
        if swarm_id is None:
            _of_server(client, as_json=as_json)
        else:
            _of_swarm(client, swarm_id, as_json=as_json)


def _of_swarm(client: Client, swarm_id: str, *, as_json: bool) -> None:
    answer = client.get(swarm_path(swarm_id, "status"))
    if as_json:
        print_json(answer)
        return
    # rich is for those who look at something.
    from shiftboss.cli.views.swarm_summary import swarm_summary

    show(swarm_summary(parsed(answer, "workers"), now()))


def _of_server(client: Client, *, as_json: bool) -> None:
    health = parsed(client.get("/health"), "uptime_seconds")
    listing = joined(swarm_pages(client, PAGE_SWARMS_MAX))
    running = [one for one in listing["swarms"] if one["status"] == "running"]
    if as_json:
        print_json(json.dumps({"health": health, "swarms": running}).encode())
    else:
        _show_server(client.address, health, running, older=listing["next_before"] is not None)


def _show_server(
    address: str, health: dict[str, Any], running: list[dict[str, Any]], *, older: bool
) -> None:
    say(
        f"Shiftboss {health['version']} at {address} is {health['status']}: "
        f"store {health['store']}, up {span(health['uptime_seconds'])}"
    )
    if running:
        # rich is for those who look at something.
        from shiftboss.cli.views.swarms import swarms_table

        show(swarms_table(running, now()))
    else:
        say("no swarm is running")
    if older:
        say(f"of the newest {PAGE_SWARMS_MAX} swarms; for older ones: shiftboss swarm list --all")
