"""Reads a plan file and reports all its problems at once, each with its line and its key.

Besides the types, it checks for contradictions, such as unknown names, dependency cycles and ids
that cannot be branch names. These checks read the raw data, so that they are reported together with
values of the wrong type. Plans that are valid but probably not intended get warnings.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from shiftboss.defaults import DEFAULT_AGENT
from shiftboss.errors import InvalidPlan
from shiftboss.protocol.plan import Plan, PlanTask
from shiftboss.rules.claims.criteria import parse_criterion
from shiftboss.rules.claims.environment_variables import is_secret_name, is_variable_allowed
from shiftboss.rules.claims.held_out import criterion_problem, invalid_paths
from shiftboss.rules.contract.repo_graph import find_cycles
from shiftboss.rules.documents.raw_data import (
    Contradiction,
    as_mapping,
    invalid_commands,
    invalid_patterns,
    listed_twice,
    strings,
    unknown_names,
)
from shiftboss.rules.documents.typed_files import problem_lines, read_typed_file, summarize_problems
from shiftboss.rules.documents.wording import did_you_mean
from shiftboss.rules.documents.yaml_lines import KeyPath, Problem, YamlDocument
from shiftboss.rules.handoffs.described_criteria import described_criteria
from shiftboss.rules.paths.braces import normalize_patterns
from shiftboss.rules.paths.branch_names import is_branch_name, task_branch
from shiftboss.rules.plans.graph import COMMAND_KIND, agent_name, repo_of
from shiftboss.rules.runs.merge_tasks import is_merge_task
from shiftboss.rules.tasks.tasks import is_reserved

# A worker is named after the swarm and a number, and its name has at most 64 characters.
SWARM_CHARACTERS_MAX: Final = 60
_RESERVED: Final = (
    "cannot be set here: the variable is reserved for Shiftboss, or loads code into other programs"
)
_ZERO: Final = re.compile(r"\s*(?:0+\s*[smhd]\s*)+")
_NO_COMMAND: Final = (
    "names no command, so it is not checked; "
    "write `Tests pass: COMMAND` or `Command passes: COMMAND` to have it checked"
)
_EXPOSED_IN_PLAN: Final = (
    "looks like a secret, and everyone who can read the plan can read it; "
    "keep it in a file that git ignores, and list that file under `copy`"
)


class PlanText(NamedTuple):
    """`document` has the line numbers, for problems that are found later."""

    plan: Plan
    document: YamlDocument
    warnings: list[Problem]


def read_plan(text: str, name: str, kinds: Collection[str]) -> PlanText:
    """Raises InvalidPlan with every problem as `name:line: key: what is wrong`. `kinds` are the
    kinds of agents."""
    form = read_typed_file(text, Plan, lambda data: contradictions(data, kinds))
    if form.value is None or form.problems:
        raise invalid_plan(name, form.problems)
    warnings = [form.document.problem(*warning) for warning in plan_warnings(form.value)]
    return PlanText(form.value, form.document, warnings)


def invalid_plan(name: str, problems: Iterable[Problem]) -> InvalidPlan:
    lines = problem_lines(name, problems)
    return InvalidPlan(
        summarize_problems(lines),
        field="plan",
        hint=f"nothing was started; `shiftboss plan check {name}` lists all problems",
        facts={"problems": lines},
    )


def contradictions(data: dict[str, Any], kinds: Collection[str]) -> Iterator[Contradiction]:
    """`kinds` are the kinds of agents. A task may use one by its name, without settings."""
    swarm = data.get("swarm")
    if isinstance(swarm, str) and len(swarm) > SWARM_CHARACTERS_MAX:
        yield (
            ("swarm",),
            f"must have at most {SWARM_CHARACTERS_MAX} characters, because worker names contain it",
        )
    repos, agents = as_mapping(data.get("repos")), as_mapping(data.get("agents"))
    for name, repo in repos.items():
        yield from _repo(("repos", name), as_mapping(repo))
    for name, agent in agents.items():
        yield from _agent(("agents", name), as_mapping(agent), kinds)
    yield from _named_agent(("agent",), data.get("agent", DEFAULT_AGENT), agents, kinds)
    tasks = data.get("tasks")
    if isinstance(tasks, list):
        for index, task in enumerate(tasks):
            path: KeyPath = ("tasks", index)
            yield from _named_agent((*path, "agent"), as_mapping(task).get("agent"), agents, kinds)
            yield from _zero_time((*path, "timeout"), as_mapping(task).get("timeout"))
        yield from task_contradictions(tasks, repos)


def _repo(path: KeyPath, repo: dict[str, Any]) -> Iterator[Contradiction]:
    branch = repo.get("branch")
    if isinstance(branch, str) and not is_branch_name(branch):
        yield (*path, "branch"), f"{branch!r} is not a valid branch name"
    yield from invalid_commands((*path, "setup"), strings(repo.get("setup")))
    yield from _zero_time((*path, "setup_timeout"), repo.get("setup_timeout"))
    yield from _variables((*path, "environment"), as_mapping(repo.get("environment")))
    ports = strings(repo.get("ports"))
    yield from listed_twice((*path, "ports"), ports)
    for index, name in ports:
        if not is_variable_allowed(name):
            yield (*path, "ports", index), _RESERVED
        elif name in as_mapping(repo.get("environment")):
            yield (*path, "ports", index), f"{name!r} is also in environment"
    yield from invalid_patterns((*path, "copy"), strings(repo.get("copy")))
    verification = as_mapping(repo.get("verification"))
    yield from invalid_commands(
        (*path, "verification", "setup"), strings(verification.get("setup"))
    )
    for key in ("generated", "expectations_change"):
        patterns = strings(verification.get(key))
        yield from invalid_patterns((*path, "verification", key), patterns)


def _agent(path: KeyPath, agent: dict[str, Any], kinds: Collection[str]) -> Iterator[Contradiction]:
    kind = agent.get("kind")
    if isinstance(kind, str) and kind not in kinds:
        guess = did_you_mean(kind, kinds) or f"; the kinds are {', '.join(sorted(kinds))}"
        yield (*path, "kind"), f"there is no agent kind {kind!r}{guess}"
    if kind == COMMAND_KIND and not agent.get("command"):
        yield path, "the kind command needs a command: the command line, as a list of words"
    yield from _variables((*path, "environment"), as_mapping(agent.get("environment")))


def _named_agent(
    path: KeyPath, name: object, agents: Collection[str], kinds: Collection[str]
) -> Iterator[Contradiction]:
    if not isinstance(name, str) or name in agents:
        return
    if name == COMMAND_KIND:
        yield path, f"the agent {name!r} needs a command line; add one under agents.{name}"
    elif name not in kinds:
        yield path, f"there is no agent {name!r}{did_you_mean(name, [*agents, *kinds])}"


def _variables(path: KeyPath, environment: dict[str, Any]) -> Iterator[Contradiction]:
    for name in environment:
        if not is_variable_allowed(name):
            yield (*path, name), _RESERVED


def _zero_time(path: KeyPath, value: object) -> Iterator[Contradiction]:
    is_zero = value == 0 and not isinstance(value, bool)
    if is_zero or (isinstance(value, str) and _ZERO.fullmatch(value)):
        yield path, "must be longer than 0 seconds"


def task_contradictions(tasks: list[Any], repos: Collection[str]) -> Iterator[Contradiction]:
    yield from _ids(tasks)
    yield from _dependencies(tasks)
    for index, raw in enumerate(tasks):
        path: KeyPath = ("tasks", index)
        task = as_mapping(raw)
        yield from _task_repo(path, task, repos)
        yield from _files(path, task)
        yield from _criteria(path, task)
        yield from _held_out((*path, "held_out"), task)


def _ids(tasks: list[Any]) -> Iterator[Contradiction]:
    known: dict[str, str] = {}
    seen: set[str] = set()
    for index, task_id in _ids_of(tasks):
        path: KeyPath = ("tasks", index, "id")
        first = known.setdefault(task_id.casefold(), task_id)
        if first != task_id:
            yield path, f"differs from {first!r} only by letter case"
        elif task_id in seen:
            yield path, f"{task_id!r} is already the id of an earlier task"
        seen.add(task_id)
        if is_reserved(task_id):
            yield path, f"{task_id!r} is reserved for work packets; choose another id"
        elif is_merge_task(task_id):
            yield path, f"{task_id!r} ends like the id of a merge task; choose another id"
        elif not is_branch_name(task_branch(task_id)):
            yield (
                path,
                f"{task_id!r} {_why_no_branch(task_id)}, and the branch is named after the task",
            )


def _why_no_branch(task_id: str) -> str:
    """Which of the characters that an id can have makes git reject the branch name."""
    not_allowed = "which git does not allow in a branch name"
    if ":" in task_id:
        return f"contains a colon, {not_allowed}"
    if ".." in task_id:
        return f"contains .., {not_allowed}"
    if task_id.endswith(".lock"):
        return f"ends with .lock, {not_allowed}"
    if task_id.endswith("."):
        return f"ends with a dot, {not_allowed}"
    return "cannot be part of a branch name"


def _dependencies(tasks: list[Any]) -> Iterator[Contradiction]:
    indexes: dict[str, int] = {}
    graph: dict[str, list[str]] = {}
    for index, task_id in _ids_of(tasks):
        if indexes.setdefault(task_id, index) == index:
            graph[task_id] = [name for _, name in strings(tasks[index].get("depends_on"))]
    for index, raw in enumerate(tasks):
        path: KeyPath = ("tasks", index, "depends_on")
        named = strings(as_mapping(raw).get("depends_on"))
        yield from unknown_names(path, named, graph, "task")
        yield from listed_twice(path, named)
    for cycle in find_cycles(graph):
        yield (
            ("tasks", indexes[cycle[0]], "depends_on"),
            f"the tasks depend on each other in a cycle: {' -> '.join(cycle)}",
        )


def _ids_of(tasks: list[Any]) -> Iterator[tuple[int, str]]:
    return (
        (index, task["id"])
        for index, task in enumerate(tasks)
        if isinstance(task, dict) and isinstance(task.get("id"), str)
    )


def _task_repo(
    path: KeyPath, task: dict[str, Any], repos: Collection[str]
) -> Iterator[Contradiction]:
    name = task.get("repo")
    if isinstance(name, str) and name not in repos:
        yield (*path, "repo"), f"there is no repo {name!r}{did_you_mean(name, repos)}"
    elif name is None and len(repos) > 1:
        yield path, f"needs a repo, because the plan has several ({', '.join(repos)})"


def _files(path: KeyPath, task: dict[str, Any]) -> Iterator[Contradiction]:
    owned, readonly = strings(task.get("files_owned")), strings(task.get("files_readonly"))
    yield from invalid_patterns((*path, "files_owned"), owned)
    yield from invalid_patterns((*path, "files_readonly"), readonly)
    changing = strings(task.get("expectations_change"))
    yield from invalid_patterns((*path, "expectations_change"), changing)
    readonly_forms = {form for _, pattern in readonly for form in _normal_forms(pattern)}
    for index, pattern in owned:
        if not readonly_forms.isdisjoint(_normal_forms(pattern)):
            yield (
                (*path, "files_owned", index),
                f"{pattern!r} is also in files_readonly, which takes precedence",
            )


def _normal_forms(pattern: str) -> list[str]:
    try:
        return normalize_patterns(pattern)
    except ValueError:
        return [pattern]


def _criteria(path: KeyPath, task: dict[str, Any]) -> Iterator[Contradiction]:
    """The same checks that the server makes when the task is spawned."""
    for index, text in strings(task.get("criteria")):
        try:
            parse_criterion(text)
        except ValueError as error:
            yield (*path, "criteria", index), str(error)
    description = task.get("description")
    if isinstance(description, str):
        try:
            described_criteria(description)
        except ValueError as error:
            yield (*path, "description"), f"contains a criterion that cannot be checked: {error}"


def _held_out(path: KeyPath, task: dict[str, Any]) -> Iterator[Contradiction]:
    held_out = task.get("held_out")
    if not isinstance(held_out, dict):
        return
    for name, reason in invalid_paths(list(as_mapping(held_out.get("files")))):
        yield (*path, "files", name), f"{name!r} {reason}"
    criterion = held_out.get("criterion")
    problem = criterion_problem(
        criterion if isinstance(criterion, str) else None,
        [text for _, text in strings(task.get("criteria"))],
    )
    if problem is not None:
        yield (*path, "criterion") if criterion is not None else path, problem


def plan_warnings(plan: Plan) -> Iterator[Contradiction]:
    for name, repo in plan.repos.items():
        yield from _secrets(("repos", name, "environment"), repo.environment)
    for name, agent in plan.agents.items():
        yield from _secrets(("agents", name, "environment"), agent.environment)
    yield from _unused(plan)
    for index, task in enumerate(plan.tasks):
        yield from _criteria_warnings(("tasks", index, "criteria"), plan, task)
        yield from _budget(("tasks", index, "budget"), plan, task)


def _secrets(path: KeyPath, environment: Mapping[str, str]) -> Iterator[Contradiction]:
    """The messages do not repeat the values."""
    for name, value in environment.items():
        if value and is_secret_name(name):
            yield (*path, name), _EXPOSED_IN_PLAN


def _unused(plan: Plan) -> Iterator[Contradiction]:
    used_repos = {repo_of(plan, task) for task in plan.tasks}
    used_agents = {agent_name(plan, task) for task in plan.tasks}
    for name in plan.repos:
        if name not in used_repos:
            yield ("repos", name), "is not used by any task"
    for name in plan.agents:
        if name not in used_agents:
            yield ("agents", name), "is not used by any task"


def _criteria_warnings(path: KeyPath, plan: Plan, task: PlanTask) -> Iterator[Contradiction]:
    verification = plan.repos[repo_of(plan, task)].verification
    refused = verification.unverifiable == "refuse"
    for index, text in enumerate(task.criteria):
        if parse_criterion(text) is None:
            end = (
                "; the repo's verification refuses criteria that are not checked" if refused else ""
            )
            yield (*path, index), f"{_NO_COMMAND}{end}"


def _budget(path: KeyPath, plan: Plan, task: PlanTask) -> Iterator[Contradiction]:
    for name in ("tokens", "dollars"):
        own, total = getattr(task.budget, name), getattr(plan.budget, name)
        if own is not None and total is not None and own > total:
            yield (*path, name), f"is more than the budget of the whole plan ({total})"
