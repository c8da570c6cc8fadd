"""shiftboss status: shows a swarm, or the server and its running swarms, in a few lines."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from shiftboss.cli.common.client import parse_answer, swarm_path
from shiftboss.cli.common.command import Output, ServerSession, server_command
from shiftboss.cli.common.output import print_line, show
from shiftboss.cli.common.pages import SWARMS_PER_PAGE_MAX, join_pages, swarm_pages
from shiftboss.cli.views.times import now, span


@server_command()
def status(
    session: ServerSession,
    swarm_id: Annotated[
        str | None, typer.Argument(metavar="ID", help="A swarm. Default: the whole server.")
    ] = None,
) -> Output:
    """Show the progress and cost of a swarm, or the whole server."""
    return _server_status(session) if swarm_id is None else _swarm_status(session, swarm_id)


def _swarm_status(session: ServerSession, swarm_id: str) -> Output:
    document = session.client.get(swarm_path(swarm_id, "status"))

    def view() -> None:
        from shiftboss.cli.views.swarms import swarm_summary

        answer = parse_answer(document, "workers")
        show(swarm_summary(answer, swarm_usage(session, swarm_id), now()))

    return Output(document, view)


def swarm_usage(session: ServerSession, swarm_id: str) -> dict[str, Any]:
    """What the whole swarm used and may use; a page with one task is the smallest there is."""
    return parse_answer(session.call("show_usage", swarm_id, after="", limit=1), "swarm")


def _server_status(session: ServerSession) -> Output:
    health = parse_answer(session.client.get("/health"), "uptime_seconds")
    listing = join_pages(swarm_pages(session.client, SWARMS_PER_PAGE_MAX), "swarms")
    running = [swarm for swarm in listing["swarms"] if swarm["status"] == "running"]

    def view() -> None:
        print_line(
            f"Shiftboss {health['version']} at {session.client.address} is {health['status']}: "
            f"store {health['store']}, up {span(health['uptime_seconds'])}"
        )
        _show_running(running)
        if listing["next_before"] is not None:
            print_line(
                f"of the newest {SWARMS_PER_PAGE_MAX} swarms; "
                "for older ones: shiftboss swarm list --all"
            )

    return Output.of({"health": health, "swarms": running}, view)


def _show_running(swarms: list[dict[str, Any]]) -> None:
    if not swarms:
        print_line("no swarm is running")
        return
    from shiftboss.cli.views.swarms import swarms_table

    show(swarms_table(swarms, now()))
