"""shiftboss plan: check a plan file, show it, make one, say what it may hold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shiftboss.cli.commands.runs.plan_import import import_plan
from shiftboss.cli.common.output import print_json, say, show
from shiftboss.errors import InvalidPlan, InvalidPolicy, ShiftbossError

if TYPE_CHECKING:
    from shiftboss.orchestrator.run.plan_file import PlanFile as ReadPlanFile

plan = typer.Typer(help="Check, show and import plans.", no_args_is_help=True)
plan.command("import")(import_plan)

PlanFile = Annotated[Path, typer.Argument(metavar="FILE", help="The plan, a YAML file.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print it as JSON.")]


class BadPlan(ShiftbossError):
    code = "bad_plan"
    title = "The plan cannot be used"


@plan.command()
def check(file: PlanFile, as_json: AsJson = False) -> None:
    """Say everything that is wrong with a plan: its line, its key, and why."""
    try:
        found = _read(file)
    except (InvalidPlan, InvalidPolicy) as error:
        raise _told(file, _problems(error), as_json=as_json) from None
    # Only these commands need the graph.
    from shiftboss.rules.plans.graph import phases

    in_phases = phases(found.plan)
    if as_json:
        _print_check(file, [], warnings=found.warnings, phases=in_phases)
        return
    for one in found.warnings:
        say(f"warning: {one}")
    tasks, repos = _count(len(found.plan.tasks), "task"), _count(len(found.plan.repos), "repo")
    in_words = _count(len(in_phases), "phase")
    say(f"{file} is good: {tasks} in {repos}, {in_words}; swarm {found.plan.swarm}")


@plan.command("show")
def show_plan(file: PlanFile, as_json: AsJson = False) -> None:
    """Show the tasks in their phases, the critical path, and who owns the same files."""
    found = _read(file)
    from shiftboss.rules.plans.graph import plan_overlaps

    overlapping = plan_overlaps(found.plan)
    if as_json:
        from shiftboss.rules.plans.graph import all_traits, critical_path, phases

        answer = {
            "plan": found.plan.model_dump(mode="json", by_alias=True),
            "phases": phases(found.plan),
            "critical_path": critical_path(found.plan),
            "traits": all_traits(found.plan),
            "overlaps": [one._asdict() for one in overlapping],
        }
        print_json(json.dumps(answer).encode())
        return
    from shiftboss.cli.views.plans import plan_view

    show(*plan_view(found.plan, overlapping))


@plan.command()
def schema() -> None:
    """Print the JSON Schema of plan files, for editors."""
    from shiftboss.protocol.plan import Plan  # pydantic, which few commands need

    print_json(json.dumps(Plan.model_json_schema(), indent=2).encode())


def _read(file: Path) -> ReadPlanFile:
    from shiftboss.orchestrator.run.plan_file import read_plan_file

    return read_plan_file(file)


def _problems(error: InvalidPlan | InvalidPolicy) -> list[str]:
    """All of a file that was read; of one that cannot be read, why."""
    found = error.facts.get("problems")
    return [str(one) for one in found] if isinstance(found, list) else [error.detail]


def _told(file: Path, problems: list[str], *, as_json: bool) -> Exception:
    if as_json:
        _print_check(file, problems)
        return typer.Exit(1)
    for one in problems:
        say(one)
    return BadPlan(f"{file} has {_count(len(problems), 'problem')}")


def _print_check(file: Path, problems: list[str], **members: Any) -> None:
    print_json(json.dumps({"file": str(file), "problems": problems} | members).encode())


def _count(number: int, word: str) -> str:
    return f"one {word}" if number == 1 else f"{number} {word}s"
