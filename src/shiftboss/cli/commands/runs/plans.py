"""shiftboss plan: checks, shows and imports plans, and prints their JSON Schema."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shiftboss.cli.commands.runs.plan_import import import_plan
from shiftboss.cli.commands.runs.plan_preflight import (
    make_preflight,
    print_warnings,
    problems_of,
    refusal,
)
from shiftboss.cli.common.command import Output, json_command
from shiftboss.cli.common.discovery import default_database
from shiftboss.cli.common.options import PlanFile
from shiftboss.cli.common.output import print_json, print_line, show
from shiftboss.errors import InvalidPlan, InvalidPolicy
from shiftboss.rules.documents.wording import pluralize

if TYPE_CHECKING:
    from shiftboss.orchestrator.run.plan_file import PlanFile as ReadPlanFile
    from shiftboss.protocol.plan import Plan

plan = typer.Typer(help="Check, show and import plans.", no_args_is_help=True)
plan.command("import")(import_plan)


@plan.command()
@json_command("Print it as JSON.")
def check(
    file: PlanFile,
    agents: Annotated[
        bool,
        typer.Option(
            "--agents/--no-agents",
            help="Whether the agents and programs of the plan must be installed here.",
        ),
    ] = True,
    repos: Annotated[
        bool,
        typer.Option(
            "--repos/--no-repos",
            help="Whether the repositories and branches of the plan must be here.",
        ),
    ] = True,
) -> Output:
    """Check whether a plan can run here, and list every problem with its line, key and reason.

    \b
    Examples:
      shiftboss plan check plan.yaml
      shiftboss plan check plan.yaml --no-agents   in CI, which has no agents
    """
    from shiftboss.rules.plans.graph import phases

    try:
        loaded = _read(file)
    except (InvalidPlan, InvalidPolicy) as error:
        return refusal(file, problems_of(error) or [error.detail], [])
    preflight = make_preflight(
        loaded, loaded.plan, default_database(), agents=agents, repos=repos, tests=True
    )
    if preflight.problems:
        return refusal(file, preflight.problems, preflight.warnings)
    in_phases = phases(loaded.plan)
    return Output.of(
        {"file": str(file), "problems": [], "warnings": preflight.warnings, "phases": in_phases},
        lambda: _show_check(file, loaded.plan, preflight.warnings, len(in_phases)),
    )


def _show_check(file: Path, plan: Plan, warnings: list[str], phase_count: int) -> None:
    print_warnings(warnings)
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
