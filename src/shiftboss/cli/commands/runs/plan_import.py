"""shiftboss plan import: a plan from the issues of a beads file, or from a Markdown checklist."""

from __future__ import annotations

import enum
import json
import os
import re
import sys
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from shiftboss.cli.commands.bus.task_import import BadFile, check_lines, read_beads
from shiftboss.cli.common.output import plain, print_json, print_text
from shiftboss.tracker.checklists import ChecklistTask, files_named, read_checklist

FILE_BYTES_MAX = 4 * 1024 * 1024


class Format(enum.StrEnum):
    BEADS = "beads"
    MARKDOWN = "markdown"


class _Found(NamedTuple):
    goal: str
    tasks: list[dict[str, Any]]
    done: int


def import_plan(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Issues, or a checklist.")],
    form: Annotated[
        Format,
        typer.Option("--from", help="beads: one issue per line as JSON; markdown: `- [ ] title`."),
    ],
    repo: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=PATH",
            help="A repo of the plan; this folder, if none is given. May be given again.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", metavar="FILE", help="Where to write it; else it is printed."),
    ] = None,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Of beads: leave out lines that cannot be used.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the plan as JSON.")] = False,
) -> None:
    """Make a plan from open issues or unchecked items.

    What they do not say, such as the files of a task, is left out; `plan check` names it.
    """
    found = _beads(file, skip_bad=skip_bad) if form is Format.BEADS else _markdown(file)
    if not found.tasks:
        raise BadFile(f"{file} has nothing to do: {found.done} are done, none is open")
    folder = Path.cwd() if out is None else out.resolve().parent
    plan = {"goal": found.goal, "repos": _repos(repo or [], folder), "tasks": found.tasks}
    if out is not None:
        _write(out, _yaml(plan))
    if as_json:
        print_json(json.dumps(plan).encode())
    elif out is None:
        print_text(_yaml(plan))
    _tell(found, out)


def _beads(file: Path, *, skip_bad: bool) -> _Found:
    issues = read_beads(file)
    tasks = issues.in_order(set())
    if not skip_bad:
        check_lines(file, issues.bad)
    return _Found(
        f"The open issues of {file.name}",
        [
            _task(
                id=task.task_id,
                title=task.title,
                description=task.description,
                depends_on=task.depends_on,
                files_owned=files_named(task.description),
                priority=task.priority,
            )
            for task in tasks
        ],
        len(issues.done),
    )


def _markdown(file: Path) -> _Found:
    try:
        with file.open("rb") as content:
            text = content.read(FILE_BYTES_MAX).decode()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise BadFile(f"cannot read {file}: {reason}") from error
    found = read_checklist(text)
    return _Found(found.goal or file.stem, [_item(task) for task in found.tasks], found.done)


def _item(task: ChecklistTask) -> dict[str, Any]:
    return _task(
        id=task.task_id,
        title=task.title,
        description=task.description,
        repo=task.repo,
        depends_on=task.depends_on,
        files_owned=task.files,
        criteria=task.criteria,
    )


def _task(**members: Any) -> dict[str, Any]:
    """Without what is not known or is as usual."""
    return {name: value for name, value in members.items() if value}


def _repos(said: list[str], folder: Path) -> dict[str, Any]:
    """Their paths as they are written in a file of that folder."""
    if not said:
        name = re.sub(r"[^A-Za-z0-9._-]+", "-", Path.cwd().name).strip("-._")
        said = [f"{name or 'repo'}=."]
    repos = {}
    for one in said:
        name, equals, path = one.partition("=")
        if not (name and equals and path):
            raise typer.BadParameter(f"{one!r} is not NAME=PATH", param_hint="--repo")
        repos[name] = {"path": os.path.relpath(Path(path).resolve(), folder)}
    return repos


def _yaml(plan: dict[str, Any]) -> str:
    import yaml  # only this command writes it

    class Dumper(yaml.SafeDumper):
        pass

    def text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
        style = "|" if "\n" in value else None
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style)

    Dumper.add_representer(str, text)
    return yaml.dump(plan, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=100)


def _write(out: Path, text: str) -> None:
    try:
        with out.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        raise BadFile(f"{out} is there already; name another file") from error
    except OSError as error:
        raise BadFile(f"cannot write {out}: {error.strerror}") from error


def _tell(found: _Found, out: Path | None) -> None:
    """Beside the plan, which may be on the standard output."""
    missing = [task["id"] for task in found.tasks if "files_owned" not in task]
    lines = [f"{len(found.tasks)} tasks, left out {found.done} that are done"]
    if missing:
        more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
        lines.append(f"files_owned is missing in {', '.join(missing[:5])}{more}: add what they own")
    lines.append(f"then look at it: shiftboss plan check {out or 'FILE'}")
    for line in lines:
        print(plain(line), file=sys.stderr)
