"""shiftboss plan: checks, shows and imports plans, and prints their JSON Schema."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shiftboss.cli.commands.runs.plan_import import import_plan
from shiftboss.cli.common.command import Output, json_command
from shiftboss.cli.common.output import print_json, print_line, show
from shiftboss.errors import InvalidPlan, InvalidPolicy, ShiftbossError
from shiftboss.rules.documents.wording import pluralize

if TYPE_CHECKING:
    from shiftboss.orchestrator.run.plan_file import PlanFile as ReadPlanFile

plan = typer.Typer(help="Check, show and import plans.", no_args_is_help=True)
plan.command("import")(import_plan)

PlanFile = Annotated[Path, typer.Argument(metavar="FILE", help="The plan, a YAML file.")]


class BadPlan(ShiftbossError):
    code = "bad_plan"
    title = "The plan cannot be used"


@plan.command()
@json_command("Print it as JSON.")
def check(file: PlanFile) -> Output:
    """Check a plan, and list every problem with its line, key and reason."""
    try:
        loaded = _read(file)
    except (InvalidPlan, InvalidPolicy) as error:
        problems = _problems(error)
        bad = BadPlan(f"{file} has {pluralize(len(problems), 'problem')}")
        answer = {"file": str(file), "problems": problems}
        return Output.of(answer, lambda: _say_all(problems), bad)
    from shiftboss.rules.plans.graph import phases

    in_phases = phases(loaded.plan)
    return Output.of(
        {"file": str(file), "problems": [], "warnings": loaded.warnings, "phases": in_phases},
        lambda: _show_check(file, loaded, len(in_phases)),
    )


def _show_check(file: Path, loaded: ReadPlanFile, phase_count: int) -> None:
    _say_all([f"warning: {warning}" for warning in loaded.warnings])
    plan = loaded.plan
    tasks, repos = pluralize(len(plan.tasks), "task"), pluralize(len(plan.repos), "repo")
    phases = pluralize(phase_count, "phase")
    print_line(f"{file} is valid: {tasks} in {repos}, {phases}; swarm {plan.swarm}")


@plan.command("show")
@json_command("Print it as JSON.")
def show_plan(file: PlanFile) -> Output:
    """Show the tasks by phase, the critical path, and tasks that own the same files."""
    loaded = _read(file)
    from shiftboss.rules.plans.graph import (
        all_models,
        all_traits,
        critical_path,
        phases,
        plan_overlaps,
    )

    overlaps = plan_overlaps(loaded.plan)
    models = all_models(loaded.plan, loaded.policy)
    answer = {
        "plan": loaded.plan.model_dump(mode="json", by_alias=True),
        "phases": phases(loaded.plan),
        "critical_path": critical_path(loaded.plan),
        "traits": all_traits(loaded.plan),
        "models": models,
        "overlaps": [overlap._asdict() for overlap in overlaps],
    }

    def view() -> None:
        from shiftboss.cli.views.plans import plan_view

        show(*plan_view(loaded.plan, models, overlaps))

    return Output.of(answer, view)


@plan.command()
def schema() -> None:
    """Print the JSON Schema of plan files, for editors."""
    from shiftboss.protocol.plan import Plan  # imported late: it needs pydantic

    print_json(json.dumps(Plan.model_json_schema(), indent=2).encode())


def _read(file: Path) -> ReadPlanFile:
    from shiftboss.orchestrator.run.plan_file import read_plan_file

    return read_plan_file(file)


def _problems(error: InvalidPlan | InvalidPolicy) -> list[str]:
    """All problems of a file that could be read; else why it could not."""
    problems = error.facts.get("problems")
    return [str(problem) for problem in problems] if isinstance(problems, list) else [error.detail]


def _say_all(lines: list[str]) -> None:
    for line in lines:
        print_line(line)
