"""shiftboss events: prints the events of a swarm."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import Annotated

import typer

from shiftboss.cli.common.command import ServerSession, server_command
from shiftboss.cli.common.event_stream import StreamEvent, follow_events, stored_events
from shiftboss.cli.common.open_items import only_swarm
from shiftboss.cli.common.options import OnlySwarmId
from shiftboss.cli.common.output import console, is_terminal, print_json, printable


@server_command()
def events(
    session: ServerSession,
    swarm_id: OnlySwarmId = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Keep printing new events until Ctrl-C.")
    ] = False,
    since: Annotated[
        int, typer.Option(metavar="N", min=0, help="Start after the event with this id.")
    ] = 0,
) -> None:
    """Print the events of a swarm, one per line.

    \b
    Example:
      shiftboss events login --follow
    """
    swarm = only_swarm(session, swarm_id)
    stream = (
        follow_events(session.client, swarm, since, _print_outage)
        if follow
        else stored_events(session.client, swarm, since)
    )
    if session.as_json:
        _print_json_lines(stream)
    else:
        _print_lines(stream)


def _print_outage(what: str) -> None:
    print(printable(what), file=sys.stderr, flush=True)


def _print_json_lines(stream: Iterable[StreamEvent]) -> None:
    for event in stream:
        print_json(json.dumps(event._asdict()).encode())


def _print_lines(stream: Iterable[StreamEvent]) -> None:
    from shiftboss.cli.views.events import event_line

    screen = console()
    # A file or a pipe gets one line per event, however long.
    columns = screen.width if is_terminal() else None
    for event in stream:
        screen.print(event_line(event, columns=columns), soft_wrap=columns is None)
