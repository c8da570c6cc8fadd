"""shiftboss worker: who is on the bus."""

from __future__ import annotations

from typing import Annotated

import typer

from shiftboss.cli.bus_calls import ask
from shiftboss.cli.client import parsed
from shiftboss.cli.options import (
    DEFAULT_SERVER,
    DEFAULT_SWARM,
    AsJson,
    Server,
    Swarm,
    TokenFile,
)
from shiftboss.cli.output import print_json, say, show

worker = typer.Typer(help="See who is on the bus, and free who is stuck.", no_args_is_help=True)


@worker.command("list")
def list_workers(
    swarm: Swarm = DEFAULT_SWARM,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """List the workers with what they do, and how many tasks wait."""
    answer = ask(server, token_file, "get_status", swarm, as_json=as_json)
    if as_json:
        print_json(answer)
        return
    status = parsed(answer, "workers")
    if status["workers"]:
        # rich is for those who look at something.
        from shiftboss.cli.bus_tables import bus_workers_table

        show(bus_workers_table(status["workers"]))
    else:
        say("no workers")
    say(f"{status['queued']} queued")
    for hold in status.get("holds", []):
        say(f"held back: {hold['bead_id'] or 'all of them'}, {hold['reason']}")


@worker.command()
def reset(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the worker.")],
    swarm: Swarm = DEFAULT_SWARM,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Free a stuck worker; its task goes back to the queue."""
    answer = ask(server, token_file, "reset_worker", swarm, as_json=as_json, worker_name=name)
    if as_json:
        print_json(answer)
        return
    told = parsed(answer, "released")
    released = told["released"]
    say(f"{told['worker']} is free" + (f"; {released} goes on elsewhere" if released else ""))
