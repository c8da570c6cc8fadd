"""shiftboss checkpoint: shows checkpoints, and exports them as files of the completion contract.

The files are `sessions/{date}-{worker_id}.checkpoint.cspec`. The newest checkpoint of a worker on a
day gets that name; the names of older ones also have the id of their task.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import typer

from shiftboss.cli.common.client import RequestRefused, parse_answer
from shiftboss.cli.common.command import Output, ServerSession, server_command
from shiftboss.cli.common.options import DEFAULT_SWARM, Swarm, TaskId, TaskSwarm
from shiftboss.cli.common.output import CannotWrite, print_line, show
from shiftboss.cli.common.pages import bus_pages, join_pages
from shiftboss.cli.common.times import now

FOLDER: Final = "sessions"

_REQUIRED: Final = ("worker_id", "repo_name", "component_id", "current_milestone", "timestamp")
_OPTIONAL: Final = ("context_summary", "blockers", "decisions_made")
# Characters that a file name may not have on every system.
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]")

checkpoint = typer.Typer(help="Show and export checkpoints.", no_args_is_help=True)


@checkpoint.command("show")
@server_command()
def show_checkpoint(session: ServerSession, task_id: TaskId, swarm: TaskSwarm = None) -> Output:
    """Show the last checkpoint of a task."""
    answer = session.call("show_checkpoint", session.swarm_of(task_id, swarm), bead_id=task_id)
    return Output(answer, lambda: _show(parse_answer(answer, "checkpoint")["checkpoint"]))


def _show(stored: dict[str, Any]) -> None:
    from shiftboss.cli.views.contract import checkpoint_summary

    show(checkpoint_summary(fields_of(stored["body"]), stored["trigger"], stored["at"], now()))


@checkpoint.command()
@server_command()
def export(
    session: ServerSession,
    out: Annotated[
        Path, typer.Option(metavar="DIR", help=f"Where to put the folder {FOLDER}.")
    ] = Path(),
    swarm: Swarm = DEFAULT_SWARM,
) -> Output:
    """Write the checkpoints of a swarm to files, one for each worker and day."""
    files = files_of(_all_checkpoints(session, swarm))
    written = [_write(out / FOLDER, file) for file in files]

    def view() -> None:
        for name in written or ["no task has a checkpoint; nothing was written"]:
            print_line(name)

    return Output.of({"files": written}, view)


def _all_checkpoints(session: ServerSession, swarm: str) -> Iterator[dict[str, Any]]:
    for task in join_pages(bus_pages(session.client, "list_tasks", swarm, None), "tasks")["tasks"]:
        if task["epoch"] == 0:
            continue  # no attempt yet
        try:
            answer = session.call("show_checkpoint", swarm, bead_id=task["bead_id"])
        except RequestRefused as refusal:
            if refusal.problem.get("code") != "unknown_checkpoint":
                raise
            continue
        yield parse_answer(answer, "checkpoint")["checkpoint"]


def _write(folder: Path, file: CheckpointFile) -> str:
    path = folder / file.name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(content_of(file), encoding="utf-8")
    except OSError as error:
        raise CannotWrite(f"cannot write {path}: {error.strerror}") from error
    return str(path)


class CheckpointFile(NamedTuple):
    name: str
    trigger: str
    fields: dict[str, Any]


def fields_of(body: Mapping[str, Any]) -> dict[str, Any]:
    """The contract's fields in its order, with a readable time."""
    fields: dict[str, Any] = {name: body.get(name) for name in _REQUIRED}
    fields["timestamp"] = _time_of(body).strftime("%Y-%m-%dT%H:%M:%SZ")
    fields["commits"] = body.get("commits") or []
    fields["ci_runs"] = [_ci_run(run) for run in body.get("ci_runs") or []]
    fields["files_modified"] = body.get("files_modified") or []
    return fields | {name: body[name] for name in _OPTIONAL if body.get(name)}


def _ci_run(run: Mapping[str, Any]) -> dict[str, Any]:
    return {name: run.get(name) for name in ("id", "status", "jobs_passed")}


def _time_of(body: Mapping[str, Any]) -> datetime:
    return datetime.fromtimestamp(body["timestamp"] / 1000, UTC)


def files_of(checkpoints: Iterable[Mapping[str, Any]]) -> list[CheckpointFile]:
    """`checkpoints` are answers of show_checkpoint. Every file gets a name of its own."""
    newest_first = sorted(checkpoints, key=lambda stored: stored["body"]["timestamp"], reverse=True)
    files: dict[str, CheckpointFile] = {}
    for stored in newest_first:
        body = stored["body"]
        stem = f"{_time_of(body):%Y-%m-%d}-{_safe(body['worker_id'])}"
        if f"{stem}.checkpoint.cspec" in files:
            stem = f"{stem}-{_safe(body['component_id'])}"
        name = f"{stem}.checkpoint.cspec"
        files[name] = CheckpointFile(name, stored["trigger"], fields_of(body))
    return list(files.values())


def _safe(name: str) -> str:
    return _UNSAFE.sub("_", name)


def content_of(file: CheckpointFile) -> str:
    import yaml  # imported late: only an export needs it

    fields = yaml.safe_dump(file.fields, sort_keys=False, allow_unicode=True)
    return f"# Worker checkpoint\n# trigger: {file.trigger}\n\n{fields}"
