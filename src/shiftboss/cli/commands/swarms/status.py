"""shiftboss status: shows a swarm, or the running and waiting work of the server."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated, Any, Final

import typer

from shiftboss.cli.common.client import Client, RequestRefused, parse_answer, swarm_path
from shiftboss.cli.common.command import Output, ServerSession, server_command
from shiftboss.cli.common.open_items import newest_swarms
from shiftboss.cli.common.output import print_line, show
from shiftboss.cli.common.times import now, span

# A swarm that ended within this time is shown with the ongoing ones.
RECENT: Final = timedelta(hours=1)
SWARMS_SHOWN_MAX: Final = 20
# Items that a person can act on, even in a swarm where no work is in progress.
_OPEN_WORK: Final = ("questions", "scope_requests", "holds", "reviews", "failed", "stuck_claims")


@server_command()
def status(
    session: ServerSession,
    swarm_id: Annotated[
        str | None, typer.Argument(metavar="SWARM", help="A swarm. Default: the whole server.")
    ] = None,
) -> Output:
    """Show running and waiting work, what it costs, and the command that helps.

    \b
    Examples:
      shiftboss status
      shiftboss status login
    """
    return _server_status(session) if swarm_id is None else _swarm_status(session, swarm_id)


def _swarm_status(session: ServerSession, swarm_id: str) -> Output:
    document = session.client.get(swarm_path(swarm_id, "status"))

    def view() -> None:
        from shiftboss.cli.views.overview import reason_lines, show_lines
        from shiftboss.cli.views.swarms import swarm_summary

        answer = parse_answer(document, "workers")
        show(swarm_summary(answer, swarm_usage(session, swarm_id), now()))
        show_lines(reason_lines(answer["waiting"]))

    return Output(document, view)


def swarm_usage(session: ServerSession, swarm_id: str) -> dict[str, Any]:
    """The usage and the limits of the whole swarm; a page with one task is the smallest there
    is."""
    return parse_answer(session.call("show_usage", swarm_id, after="", limit=1), "swarm")


def _server_status(session: ServerSession) -> Output:
    health = parse_answer(session.client.get("/health"), "uptime_seconds")
    ready = {} if session.is_offline else _readiness(session.client)
    newest, is_cut = newest_swarms(session)
    at = now()
    ongoing = [swarm for swarm in newest if is_ongoing(swarm, at)]
    shown = ongoing or _last_ended(newest)
    swarms = [_with_reasons(session, swarm) for swarm in shown[:SWARMS_SHOWN_MAX]]

    def view() -> None:
        if not session.is_offline:
            print_line(
                f"Shiftboss {health['version']} at {session.client.address} is {health['status']}: "
                f"store {health['store']}, up {span(health['uptime_seconds'])}"
            )
        if ready:
            from shiftboss.cli.views.deployment import difference_line, warning_lines

            line = difference_line(ready)
            if line is not None:
                print_line(line)
            for line in warning_lines(ready):
                print_line(line)
        if not ongoing:
            print_line("nothing is running or waiting" + ("; the last swarm:" if swarms else ""))
        _show_swarms(swarms, at)
        if len(shown) > SWARMS_SHOWN_MAX or is_cut:
            print_line("there are more: shiftboss swarm list --all")

    document = {"health": health, "ready": ready, "idle": not ongoing, "swarms": swarms}
    return Output.of(document, view)


def _readiness(client: Client) -> dict[str, Any]:
    """The server's report about itself and the other servers; nothing from an older server."""
    try:
        return parse_answer(client.get("/ready"), "status")
    except RequestRefused as refusal:
        return {name: refusal.problem.get(name, []) for name in ("reasons", "differences")}


def is_ongoing(swarm: dict[str, Any], at: datetime) -> bool:
    """Whether work is being done, something waits, or it ended a short time ago."""
    bus = swarm["bus"]
    if swarm["status"] in ("running", "waiting") or any(bus.get(kind) for kind in _OPEN_WORK):
        return True
    is_empty = not bus["total"] and not swarm["workers_registered"]
    return not is_empty and at - datetime.fromisoformat(swarm["last_update"]) < RECENT


def _last_ended(swarms: list[dict[str, Any]]) -> list[dict[str, Any]]:
    ended = [swarm for swarm in swarms if swarm["status"] in ("complete", "failed")]
    return sorted(ended, key=lambda swarm: str(swarm["last_update"]))[-1:]


def _with_reasons(session: ServerSession, swarm: dict[str, Any]) -> dict[str, Any]:
    document = session.client.get(swarm_path(swarm["swarm_id"], "status"))
    full = parse_answer(document, "workers")
    return swarm | {name: full[name] for name in ("waiting", "plan_file", "status", "bus")}


def _show_swarms(swarms: list[dict[str, Any]], at: datetime) -> None:
    if not swarms:
        return
    from shiftboss.cli.views.overview import show_lines, swarm_lines

    for swarm in swarms:
        show_lines(swarm_lines(swarm, at))
