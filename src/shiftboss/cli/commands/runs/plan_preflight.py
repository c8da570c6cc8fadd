"""The preflight of a plan, for the commands that check, simulate or run one."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from shiftboss.cli.common.command import Output
from shiftboss.cli.common.output import print_line, printable
from shiftboss.errors import InvalidPlan, InvalidPolicy, ShiftbossError
from shiftboss.rules.documents.wording import pluralize

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shiftboss.orchestrator.run.plan_file import PlanFile
    from shiftboss.orchestrator.run.preflight import Preflight
    from shiftboss.protocol.plan import Plan


class BadPlan(ShiftbossError):
    code = "bad_plan"
    title = "The plan cannot be used"

    @classmethod
    def of(cls, file: Path, problems: Sequence[str]) -> BadPlan:
        return cls(f"{file} has {pluralize(len(problems), 'problem')}")


def make_preflight(
    loaded: PlanFile,
    plan: Plan,
    database: str,
    trees: Path | None = None,
    *,
    agents: bool = True,
    repos: bool = True,
    tests: bool = False,
) -> Preflight:
    """`plan` is the loaded one with the options of the command."""
    import asyncio

    from shiftboss.orchestrator.run.bootstrap import state_of
    from shiftboss.orchestrator.run.preflight import preflight

    state = state_of(database)
    return asyncio.run(
        preflight(loaded, plan, state, trees, agents=agents, repos=repos, tests=tests)
    )


def problems_of(error: InvalidPlan | InvalidPolicy) -> list[str]:
    """All problems of a file; none if it could not be read."""
    problems = error.facts.get("problems")
    return [str(problem) for problem in problems] if isinstance(problems, list) else []


def refusal(file: Path, problems: Sequence[str], warnings: Sequence[str]) -> Output:
    """All problems at once, and an exit code of 1."""
    answer = {"file": str(file), "problems": list(problems), "warnings": list(warnings)}

    def view() -> None:
        print_warnings(warnings)
        for problem in problems:
            print_line(problem)

    return Output.of(answer, view, BadPlan.of(file, problems))


def print_warnings(warnings: Sequence[str]) -> None:
    for warning in warnings:
        print_line(f"warning: {warning}")


def note_warnings(warnings: Sequence[str]) -> None:
    """On standard error, for a command that prints something else."""
    for warning in warnings:
        print(printable(f"warning: {warning}"), file=sys.stderr)
