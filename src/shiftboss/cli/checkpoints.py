"""shiftboss checkpoint: where the attempts at tasks stood when they were last written down."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from shiftboss.cli.bus_calls import ask, call, joined_tasks, task_pages
from shiftboss.cli.checkpoint_files import FOLDER, CheckpointFile, content_of, fields_of, files_of
from shiftboss.cli.client import Client, Refused, parsed
from shiftboss.cli.connection import connected
from shiftboss.cli.options import (
    DEFAULT_SERVER,
    DEFAULT_SWARM,
    AsJson,
    Server,
    Swarm,
    TaskId,
    TokenFile,
)
from shiftboss.cli.output import print_json, say, show
from shiftboss.cli.times import now
from shiftboss.errors import ShiftbossError

checkpoint = typer.Typer(help="Show and export checkpoints.", no_args_is_help=True)


class CannotWrite(ShiftbossError):
    code = "cannot_write"
    title = "The file cannot be written"


@checkpoint.command("show")
def show_checkpoint(
    task_id: TaskId,
    swarm: Swarm = DEFAULT_SWARM,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Show where the attempt at a task stood last."""
    answer = ask(server, token_file, "show_checkpoint", swarm, as_json=as_json, bead_id=task_id)
    if as_json:
        print_json(answer)
        return
    told = parsed(answer, "checkpoint")["checkpoint"]
    # rich is for those who look at something.
    from shiftboss.cli.contract_tables import checkpoint_summary

    show(checkpoint_summary(fields_of(told["body"]), told["trigger"], told["at"], now()))


@checkpoint.command()
def export(
    out: Annotated[
        Path, typer.Option(metavar="DIR", help=f"Where to put the folder {FOLDER}.")
    ] = Path(),
    swarm: Swarm = DEFAULT_SWARM,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Write the checkpoints of a swarm into files, one for each worker and day."""
    with connected(server, token_file, as_json=as_json) as client:
        files = files_of(_all(client, swarm))
    written = [_written(out / FOLDER, one) for one in files]
    if as_json:
        print_json(json.dumps({"files": written}).encode())
        return
    for name in written:
        say(name)
    if not written:
        say("no task has a checkpoint; nothing was written")


def _all(client: Client, swarm: str) -> Iterator[dict[str, Any]]:
    for task in joined_tasks(task_pages(client, swarm, None))["tasks"]:
        if task["epoch"] == 0:
            continue  # nobody has tried it yet
        try:
            answer = call(client, "show_checkpoint", swarm, bead_id=task["bead_id"])
        except Refused as refusal:
            if refusal.problem.get("code") != "unknown_checkpoint":
                raise
            continue
        yield parsed(answer, "checkpoint")["checkpoint"]


def _written(folder: Path, file: CheckpointFile) -> str:
    path = folder / file.name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(content_of(file), encoding="utf-8")
    except OSError as error:
        raise CannotWrite(f"cannot write {path}: {error.strerror}") from error
    return str(path)
