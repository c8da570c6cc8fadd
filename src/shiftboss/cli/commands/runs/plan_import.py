"""shiftboss plan import: makes a plan from a beads file or a Markdown checklist."""

from __future__ import annotations

import enum
import os
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from shiftboss.cli.commands.bus.task_import import BadFile, check_lines, read_beads
from shiftboss.cli.common.command import Output, json_command
from shiftboss.cli.common.output import print_text

if TYPE_CHECKING:
    from shiftboss.tracker.checklists import ChecklistTask

FILE_BYTES_MAX = 4 * 1024 * 1024


class Format(enum.StrEnum):
    BEADS = "beads"
    MARKDOWN = "markdown"


class _ImportedPlan(NamedTuple):
    goal: str
    tasks: list[dict[str, Any]]
    done: int


@json_command("Print the plan as JSON.")
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
            help="A repo of the plan. Default: the current folder. May be repeated.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "-o", "--out", metavar="FILE", help="Where to write the plan. Default: print it."
        ),
    ] = None,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="For beads: skip lines that cannot be used.")
    ] = False,
) -> Output:
    """Make a plan from open issues or unchecked items.

    Missing keys, such as the files of a task, are left out; `plan check` names them.

    \b
    Example:
      shiftboss plan import TODO.md --from markdown -o plan.yaml
    """
    imported = _beads(file, skip_bad=skip_bad) if form is Format.BEADS else _markdown(file)
    if not imported.tasks:
        raise BadFile(f"{file} has no open tasks; {imported.done} are done")
    folder = Path.cwd() if out is None else out.resolve().parent
    plan = {"goal": imported.goal, "repos": _repos(repo or [], folder), "tasks": imported.tasks}
    if out is not None:
        _write(out, _yaml(plan))
    return Output.of(
        plan,
        lambda: print_text(_yaml(plan)) if out is None else None,
        notes=_next_steps(imported, out),
    )


def _beads(file: Path, *, skip_bad: bool) -> _ImportedPlan:
    from shiftboss.tracker.checklists import files_named

    issues = read_beads(file)
    tasks = issues.in_order(set())
    if not skip_bad:
        check_lines(file, issues.bad)
    return _ImportedPlan(
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


def _markdown(file: Path) -> _ImportedPlan:
    from shiftboss.tracker.checklists import read_checklist

    try:
        with file.open("rb") as content:
            text = content.read(FILE_BYTES_MAX).decode()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise BadFile(f"cannot read {file}: {reason}") from error
    checklist = read_checklist(text)
    tasks = [_checklist_task(task) for task in checklist.tasks]
    return _ImportedPlan(checklist.goal or file.stem, tasks, checklist.done)


def _checklist_task(task: ChecklistTask) -> dict[str, Any]:
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
    """Without members that are empty."""
    return {name: value for name, value in members.items() if value}


def _repos(options: list[str], folder: Path) -> dict[str, Any]:
    """The repos of the plan, with paths relative to the folder of the plan."""
    if not options:
        name = re.sub(r"[^A-Za-z0-9._-]+", "-", Path.cwd().name).strip("-._")
        options = [f"{name or 'repo'}=."]
    repos = {}
    for option in options:
        name, equals, path = option.partition("=")
        if not (name and equals and path):
            raise typer.BadParameter(f"{option!r} is not NAME=PATH", param_hint="--repo")
        repos[name] = {"path": os.path.relpath(Path(path).resolve(), folder)}
    return repos


def _yaml(plan: dict[str, Any]) -> str:
    import yaml  # imported late: few commands write YAML

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
        raise BadFile(f"{out} exists already; name another file") from error
    except OSError as error:
        raise BadFile(f"cannot write {out}: {error.strerror}") from error


def _next_steps(imported: _ImportedPlan, out: Path | None) -> list[str]:
    missing = [task["id"] for task in imported.tasks if "files_owned" not in task]
    lines = [f"{len(imported.tasks)} tasks, skipped {imported.done} that are done"]
    if missing:
        more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
        lines.append(f"files_owned is missing in {', '.join(missing[:5])}{more}: add it")
    if out is not None:
        lines.append(f"then check the plan: shiftboss plan check {shlex.quote(str(out))}")
    return lines
