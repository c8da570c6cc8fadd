"""shiftboss watch: the board, tasks, logs and the inbox, full-screen and live."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from shiftboss.cli.common.command import Output, ServerSession, server_command
from shiftboss.errors import ShiftbossError


class NoTerminal(ShiftbossError):
    code = "no_terminal"
    title = "This needs a terminal"


@server_command(json_help="Print the board and the inbox as JSON, once.", operator=True)
def watch(
    session: ServerSession,
    swarm_id: Annotated[
        str | None,
        typer.Argument(
            metavar="SWARM", help="A swarm. Default: the newest with work, and the inbox of all."
        ),
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="Print the board and the inbox once, for scripts.")
    ] = False,
) -> Output | None:
    """Watch the work full-screen: board, tasks, logs, inbox; decide with single keys.

    `?` lists the keys. Quitting stops nothing. For scripts: --once, --json, or `shiftboss status`.

    \b
    Examples:
      shiftboss watch
      shiftboss watch login
      shiftboss watch login --once
    """
    if once or session.as_json:
        from shiftboss.cli.watch.snapshot import snapshot

        return snapshot(session, swarm_id)
    if not (sys.stdout.isatty() and sys.stdin.isatty()):
        raise NoTerminal(
            "`shiftboss watch` needs a terminal for its input and output",
            hint="without one: shiftboss status, or shiftboss watch --once",
        )
    session.client.get("/health")  # a server that cannot be reached is an error before the screen
    from shiftboss.cli.watch.screens.app import WatchApp

    app = WatchApp(session, swarm_id)
    app.run()
    app.raise_failure()
    return None
