"""What a plan says that cannot hold: names of nothing, circles, ids that can be no branch.

It looks at the raw data, so that these are told together with the mistakes of form.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from shiftboss.errors import InvalidPlan
from shiftboss.protocol.plan import Plan, PlanTask
from shiftboss.rules.claims.criteria import parse_criterion
from shiftboss.rules.claims.described_criteria import described_criteria
from shiftboss.rules.claims.variables import is_secret_name, may_be_passed
from shiftboss.rules.contract.repo_graph import find_cycles
from shiftboss.rules.documents.raw_data import (
    Contradiction,
    commands,
    mapping,
    patterns,
    texts,
    twice,
    unknown,
)
from shiftboss.rules.documents.typed_files import in_short, read_form, told_lines
from shiftboss.rules.documents.wording import did_you_mean
from shiftboss.rules.documents.yaml_lines import Document, Path, Problem
from shiftboss.rules.paths.branch_names import is_branch_name, task_branch
from shiftboss.rules.paths.patterns import normalised
from shiftboss.rules.plans.graph import COMMAND, agent_name, repo_of
from shiftboss.rules.runs.merge_tasks import is_merge
from shiftboss.rules.tasks.tasks import is_reserved

# What the tasks of a plan say that cannot hold. It looks at the raw data, see `plan_sense`.


def task_contradictions(tasks: list[Any], repos: Collection[str]) -> Iterator[Contradiction]:
    yield from _ids(tasks)
    yield from _dependencies(tasks)
    for place, raw in enumerate(tasks):
        path: Path = ("tasks", place)
        task = mapping(raw)
        yield from _task_repo(path, task, repos)
        yield from _files(path, task)
        yield from _criteria(path, task)


def _ids(tasks: list[Any]) -> Iterator[Contradiction]:
    known: dict[str, str] = {}
    seen: set[str] = set()
    for place, task_id in _ids_of(tasks):
        path: Path = ("tasks", place, "id")
        first = known.setdefault(task_id.casefold(), task_id)
        if first != task_id:
            yield path, f"differs from {first!r} by letter case only"
        elif task_id in seen:
            yield path, f"{task_id!r} is the id of an earlier task as well"
        seen.add(task_id)
        if is_reserved(task_id):
            yield path, f"{task_id!r} is kept for work packets; choose another"
        elif is_merge(task_id):
            yield path, f"{task_id!r} ends as the tasks that landings make; choose another"
        elif not is_branch_name(task_branch(task_id)):
            yield path, f"{task_id!r} {_not_in_a_branch(task_id)}; its branch takes the name"


def _not_in_a_branch(task_id: str) -> str:
    """Of the letters that an id can have, these are what git forbids."""
    if ":" in task_id:
        return "holds a colon, which git allows in no branch"
    if ".." in task_id:
        return "holds .., which git allows in no branch"
    if task_id.endswith(".lock"):
        return "ends with .lock, as no branch of git can"
    if task_id.endswith("."):
        return "ends with a dot, as no branch of git can"
    return "cannot be in the name of a branch"


def _dependencies(tasks: list[Any]) -> Iterator[Contradiction]:
    places: dict[str, int] = {}
    graph: dict[str, list[str]] = {}
    for place, task_id in _ids_of(tasks):
        if places.setdefault(task_id, place) == place:
            graph[task_id] = [one for _, one in texts(tasks[place].get("depends_on"))]
    for place, raw in enumerate(tasks):
        path: Path = ("tasks", place, "depends_on")
        named = texts(mapping(raw).get("depends_on"))
        yield from unknown(path, named, graph, "task")
        yield from twice(path, named)
    for cycle in find_cycles(graph):
        yield (
            ("tasks", places[cycle[0]], "depends_on"),
            f"the tasks wait for each other in a circle: {' -> '.join(cycle)}",
        )


def _ids_of(tasks: list[Any]) -> Iterator[tuple[int, str]]:
    return (
        (place, task["id"])
        for place, task in enumerate(tasks)
        if isinstance(task, dict) and isinstance(task.get("id"), str)
    )


def _task_repo(path: Path, task: dict[str, Any], repos: Collection[str]) -> Iterator[Contradiction]:
    name = task.get("repo")
    if isinstance(name, str) and name not in repos:
        yield (*path, "repo"), f"there is no repo {name!r}{did_you_mean(name, repos)}"
    elif name is None and len(repos) > 1:
        yield path, f"needs a repo: the plan has several ({', '.join(repos)})"


def _files(path: Path, task: dict[str, Any]) -> Iterator[Contradiction]:
    owned, readonly = texts(task.get("files_owned")), texts(task.get("files_readonly"))
    yield from patterns((*path, "files_owned"), owned)
    yield from patterns((*path, "files_readonly"), readonly)
    closed = {_plain(one) for _, one in readonly}
    for place, one in owned:
        if _plain(one) in closed:
            yield (*path, "files_owned", place), f"{one!r} is in files_readonly too, which counts"


def _plain(pattern: str) -> str:
    try:
        return normalised(pattern)
    except ValueError:
        return pattern


def _criteria(path: Path, task: dict[str, Any]) -> Iterator[Contradiction]:
    """As the server judges them when the task is spawned."""
    for place, text in texts(task.get("criteria")):
        try:
            parse_criterion(text)
        except ValueError as error:
            yield (*path, "criteria", place), str(error)
    description = task.get("description")
    if isinstance(description, str):
        try:
            described_criteria(description)
        except ValueError as error:
            yield (*path, "description"), f"states a criterion that cannot be checked: {error}"


# Workers are called by the swarm and a number, and 64 characters are all that they have.
SWARM_CHARACTERS_MAX: Final = 60
_NOT_YOURS: Final = "cannot be set here: it is Shiftboss's own, or puts code into other programs"
_ZERO: Final = re.compile(r"\s*(?:0+\s*[smhd]\s*)+")


def contradictions(data: dict[str, Any], kinds: Collection[str]) -> Iterator[Contradiction]:
    """`kinds` are the adapters that there are; an agent may be called by one, without settings."""
    swarm = data.get("swarm")
    if isinstance(swarm, str) and len(swarm) > SWARM_CHARACTERS_MAX:
        yield (
            ("swarm",),
            f"is longer than {SWARM_CHARACTERS_MAX} characters; workers are named by it",
        )
    repos, agents = mapping(data.get("repos")), mapping(data.get("agents"))
    for name, repo in repos.items():
        yield from _repo(("repos", name), mapping(repo))
    for name, agent in agents.items():
        yield from _agent(("agents", name), mapping(agent), kinds)
    yield from _named_agent(("agent",), data.get("agent", "claude"), agents, kinds)
    tasks = data.get("tasks")
    if isinstance(tasks, list):
        for place, task in enumerate(tasks):
            path: Path = ("tasks", place)
            yield from _named_agent((*path, "agent"), mapping(task).get("agent"), agents, kinds)
            yield from _zero_time((*path, "timeout"), mapping(task).get("timeout"))
        yield from task_contradictions(tasks, repos)


def _repo(path: Path, repo: dict[str, Any]) -> Iterator[Contradiction]:
    branch = repo.get("branch")
    if isinstance(branch, str) and not is_branch_name(branch):
        yield (*path, "branch"), f"{branch!r} cannot be the name of a branch"
    yield from commands((*path, "setup"), texts(repo.get("setup")))
    yield from _zero_time((*path, "setup_timeout"), repo.get("setup_timeout"))
    yield from _variables((*path, "environment"), mapping(repo.get("environment")))
    ports = texts(repo.get("ports"))
    yield from twice((*path, "ports"), ports)
    for place, name in ports:
        if not may_be_passed(name):
            yield (*path, "ports", place), _NOT_YOURS
        elif name in mapping(repo.get("environment")):
            yield (*path, "ports", place), f"{name!r} is in environment as well"
    yield from patterns((*path, "copy"), texts(repo.get("copy")))
    verification = mapping(repo.get("verification"))
    yield from commands((*path, "verification", "setup"), texts(verification.get("setup")))
    yield from patterns((*path, "verification", "generated"), texts(verification.get("generated")))


def _agent(path: Path, agent: dict[str, Any], kinds: Collection[str]) -> Iterator[Contradiction]:
    kind = agent.get("kind")
    if isinstance(kind, str) and kind not in kinds:
        guess = did_you_mean(kind, kinds) or f"; there are {', '.join(sorted(kinds))}"
        yield (*path, "kind"), f"there is no kind {kind!r}{guess}"
    if kind == COMMAND and not agent.get("command"):
        yield path, "the kind command needs a command: its command line, as a list of words"
    yield from _variables((*path, "environment"), mapping(agent.get("environment")))


def _named_agent(
    path: Path, name: object, agents: Collection[str], kinds: Collection[str]
) -> Iterator[Contradiction]:
    if not isinstance(name, str) or name in agents:
        return
    if name == COMMAND:
        yield path, f"the agent {name!r} has no command line; write one under agents.{name}"
    elif name not in kinds:
        yield path, f"there is no agent {name!r}{did_you_mean(name, [*agents, *kinds])}"


def _variables(path: Path, environment: dict[str, Any]) -> Iterator[Contradiction]:
    for name in environment:
        if not may_be_passed(name):
            yield (*path, name), _NOT_YOURS


def _zero_time(path: Path, value: object) -> Iterator[Contradiction]:
    is_zero = value == 0 and not isinstance(value, bool)
    if is_zero or (isinstance(value, str) and _ZERO.fullmatch(value)):
        yield path, "must be longer than nothing"


# What a plan says that can hold, and still is hardly meant so.


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
        yield from _criteria_warnings(("tasks", place, "criteria"), plan, task)
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


def _criteria_warnings(path: Path, plan: Plan, task: PlanTask) -> Iterator[Contradiction]:
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


# The plan file read: all that is wrong with it at once, each with its line and its key.


class PlanText(NamedTuple):
    """`document` knows the lines, for what is found out later."""

    plan: Plan
    document: Document
    warnings: list[Problem]


def read_plan(text: str, name: str, kinds: Collection[str]) -> PlanText:
    """Raises InvalidPlan with every problem as `name:line: key: what is wrong`. `kinds` are the
    adapters for agents that there are."""
    form = read_form(text, Plan, lambda data: contradictions(data, kinds))
    if form.value is None or form.problems:
        raise invalid_plan(name, form.problems)
    warnings = [form.document.problem(*one) for one in plan_warnings(form.value)]
    return PlanText(form.value, form.document, warnings)


def invalid_plan(name: str, problems: Iterable[Problem]) -> InvalidPlan:
    lines = told_lines(name, problems)
    return InvalidPlan(
        in_short(lines),
        field="plan",
        hint=f"nothing was started; `shiftboss plan check {name}` shows all problems",
        facts={"problems": lines},
    )
