"""shiftboss events: what happened in a swarm, and what happens."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import Annotated

import typer

from shiftboss.cli.common.client import connected
from shiftboss.cli.common.event_stream import StreamEvent, followed_events, stored_events
from shiftboss.cli.common.options import DEFAULT_SERVER, AsJson, Server, SwarmId, TokenFile
from shiftboss.cli.common.output import console, print_json


def events(
    swarm_id: SwarmId,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with what happens, until Ctrl-C.")
    ] = False,
    since: Annotated[
        int, typer.Option(metavar="N", min=0, help="Start behind the event with this id.")
    ] = 0,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Print the events of a swarm, one per line."""
    with connected(server, token_file, as_json=as_json) as client:
        found = (
            followed_events(client, swarm_id, since, _say_lost)
            if follow
            else stored_events(client, swarm_id, since)
        )
        if as_json:
            _print_json_lines(found)
        else:
            _print_lines(found)


def _say_lost() -> None:
    print("connection lost; connecting again", file=sys.stderr, flush=True)


def _print_json_lines(found: Iterable[StreamEvent]) -> None:
    for event in found:
        print_json(json.dumps(event._asdict()).encode())


def _print_lines(found: Iterable[StreamEvent]) -> None:
    # rich is for those who look at something.
    from shiftboss.cli.views.events import event_line

    screen = console()
    for event in found:
        # A file or a pipe gets one line per event, however long.
        screen.print(
            event_line(event, wide=not screen.is_terminal), soft_wrap=not screen.is_terminal
        )
