"""shiftboss swarm pause and resume: nothing is handed out for a while."""

from __future__ import annotations

from typing import Annotated

import typer

from shiftboss.cli.bus_calls import OperatorPlaces, ask, ask_as_operator
from shiftboss.cli.client import parsed
from shiftboss.cli.options import (
    DEFAULT_SERVER,
    AsJson,
    OperatorTokenFile,
    Server,
    SwarmId,
    TokenFile,
)
from shiftboss.cli.output import print_json, say
from shiftboss.cli.times import now, span

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
