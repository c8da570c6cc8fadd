"""shiftboss checkpoint: where the attempts at tasks stood when they were last written down."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import typer

from shiftboss.cli.common.bus_calls import ask, call, joined_tasks, task_pages
from shiftboss.cli.common.client import Client, RequestRefused, connected, parsed
from shiftboss.cli.common.options import (
    DEFAULT_SERVER,
    DEFAULT_SWARM,
    AsJson,
    Server,
    Swarm,
    TaskId,
    TokenFile,
)
from shiftboss.cli.common.output import print_json, say, show
from shiftboss.cli.views.times import now
from shiftboss.errors import ShiftbossError

# Checkpoints as the files of the completion contract:
# sessions/{date}-{worker_id}.checkpoint.cspec
#
# The newest of a worker's day has that name; an older one has the id of its task in it as well.


FOLDER: Final = "sessions"

_REQUIRED: Final = ("worker_id", "repo_name", "component_id", "current_milestone", "timestamp")
_FURTHER: Final = ("context_summary", "blockers", "decisions_made")
# What a name on a disk may hold everywhere.
_ODD: Final = re.compile(r"[^A-Za-z0-9._-]")


class CheckpointFile(NamedTuple):
    name: str
    trigger: str
    fields: dict[str, Any]


def fields_of(body: Mapping[str, Any]) -> dict[str, Any]:
    """The contract's fields in its order; a time as people write it."""
    fields: dict[str, Any] = {name: body.get(name) for name in _REQUIRED}
    fields["timestamp"] = _at(body).strftime("%Y-%m-%dT%H:%M:%SZ")
    fields["commits"] = body.get("commits") or []
    fields["ci_runs"] = [_run(one) for one in body.get("ci_runs") or []]
    fields["files_modified"] = body.get("files_modified") or []
    return fields | {name: body[name] for name in _FURTHER if body.get(name)}


def _run(seen: Mapping[str, Any]) -> dict[str, Any]:
    passed = [job["name"] for job in seen.get("jobs", []) if job["state"] == "success"]
    return {"id": seen.get("run_id"), "status": seen.get("state"), "jobs_passed": passed}


def _at(body: Mapping[str, Any]) -> datetime:
    return datetime.fromtimestamp(body["timestamp"] / 1000, UTC)


def files_of(checkpoints: Iterable[Mapping[str, Any]]) -> list[CheckpointFile]:
    """`checkpoints` are answers of show_checkpoint. No two files have one name."""
    newest_first = sorted(checkpoints, key=lambda one: one["body"]["timestamp"], reverse=True)
    found: dict[str, CheckpointFile] = {}
    for one in newest_first:
        body = one["body"]
        stem = f"{_at(body):%Y-%m-%d}-{_usable(body['worker_id'])}"
        if f"{stem}.checkpoint.cspec" in found:
            stem = f"{stem}-{_usable(body['component_id'])}"
        name = f"{stem}.checkpoint.cspec"
        found[name] = CheckpointFile(name, one["trigger"], fields_of(body))
    return list(found.values())


def _usable(name: str) -> str:
    return _ODD.sub("_", name)


def content_of(file: CheckpointFile) -> str:
    """YAML, which is imported late: only those who export need it."""
    import yaml

    fields = yaml.safe_dump(file.fields, sort_keys=False, allow_unicode=True)
    return f"# Worker checkpoint\n# trigger: {file.trigger}\n\n{fields}"


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
    from shiftboss.cli.views.contract import checkpoint_summary

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
        except RequestRefused as refusal:
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
