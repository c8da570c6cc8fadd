"""What a plan says that can hold, and still is hardly meant so."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from shiftboss.protocol.plan import Plan, PlanTask
from shiftboss.rules.criteria import parse_criterion
from shiftboss.rules.plan_agents import agent_name
from shiftboss.rules.plan_graph import repo_of
from shiftboss.rules.raw_data import Contradiction
from shiftboss.rules.secret_names import is_secret_name
from shiftboss.rules.yaml_lines import Path

_NO_COMMAND: Final = (
    "names no command, so nobody checks it; "
    "`Tests pass: COMMAND` or `Command passes: COMMAND` is checked"
)
_SEEN_BY_ALL: Final = (
    "looks like a secret, and whoever reads the plan reads it; "
    "keep it in a file that git ignores, and let `copy` bring that into the work tree"
)


def plan_warnings(plan: Plan) -> Iterator[Contradiction]:
    for name, repo in plan.repos.items():
        yield from _secrets(("repos", name, "environment"), repo.environment)
    for name, agent in plan.agents.items():
        yield from _secrets(("agents", name, "environment"), agent.environment)
    yield from _unused(plan)
    for place, task in enumerate(plan.tasks):
        yield from _criteria(("tasks", place, "criteria"), plan, task)
        yield from _budget(("tasks", place, "budget"), plan, task)


def _secrets(path: Path, environment: Mapping[str, str]) -> Iterator[Contradiction]:
    """Their values are said nowhere."""
    for name, value in environment.items():
        if value and is_secret_name(name):
            yield (*path, name), _SEEN_BY_ALL


def _unused(plan: Plan) -> Iterator[Contradiction]:
    used_repos = {repo_of(plan, task) for task in plan.tasks}
    used_agents = {agent_name(plan, task) for task in plan.tasks}
    for name in plan.repos:
        if name not in used_repos:
            yield ("repos", name), "has no task"
    for name in plan.agents:
        if name not in used_agents:
            yield ("agents", name), "has no task"


def _criteria(path: Path, plan: Plan, task: PlanTask) -> Iterator[Contradiction]:
    verification = plan.repos[repo_of(plan, task)].verification
    refused = verification.unverifiable == "refuse"
    for place, text in enumerate(task.criteria):
        if parse_criterion(text) is None:
            end = "; the repo's verification refuses what nobody checks" if refused else ""
            yield (*path, place), f"{_NO_COMMAND}{end}"


def _budget(path: Path, plan: Plan, task: PlanTask) -> Iterator[Contradiction]:
    for name in ("tokens", "dollars"):
        mine, all_of_it = getattr(task.budget, name), getattr(plan.budget, name)
        if mine is not None and all_of_it is not None and mine > all_of_it:
            yield (*path, name), f"is more than the whole plan may spend ({all_of_it})"
