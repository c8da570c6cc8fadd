"""shiftboss swarm clean: what a complete swarm left behind."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from shiftboss.cli.client import parsed, swarm_path
from shiftboss.cli.connection import connected
from shiftboss.cli.options import DEFAULT_SERVER, Server, SwarmId, TokenFile
from shiftboss.cli.output import print_json, say
from shiftboss.errors import ShiftbossError


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
