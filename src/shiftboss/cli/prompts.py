"""shiftboss prompt: what the worker of a task reads."""

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
    TaskId,
    TokenFile,
)
from shiftboss.cli.output import print_json, print_text


def prompt(
    task_id: TaskId,
    ci: Annotated[
        bool, typer.Option("--ci", help="What it reads about CI, once it has pushed.")
    ] = False,
    swarm: Swarm = DEFAULT_SWARM,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Print the short prompt that the worker of a task starts with."""
    operation = "get_ci_instructions" if ci else "get_worker_prompt"
    answer = ask(server, token_file, operation, swarm, as_json=as_json, bead_id=task_id)
    if as_json:
        print_json(answer)
    else:
        print_text(parsed(answer, "text")["text"])
