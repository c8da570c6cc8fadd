"""The tasks of a plan as a graph: phases, critical path, traits, and overlapping files.

It expects a plan that was read by `plan_file`: every dependency exists, and there is no cycle.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from graphlib import TopologicalSorter
from typing import Final, NamedTuple, get_args

from shiftboss.protocol.handoff_requests import Review
from shiftboss.protocol.handoffs import VerificationPolicy
from shiftboss.protocol.plan import Plan, PlanRepo, PlanTask
from shiftboss.protocol.policy import Policy, Trait
from shiftboss.rules.handoffs.handoffs import choose_model
from shiftboss.rules.paths.braces import expand_braces
from shiftboss.rules.paths.overlap import Overlap, overlaps
from shiftboss.rules.paths.patterns import Pattern, pattern_of

# The expected duration of a task, relative to others.
WEIGHTS: Final[Mapping[str, int]] = {"low": 1, "normal": 2, "high": 4}


def weight_of(task: PlanTask) -> int:
    return WEIGHTS[task.complexity]


def repo_of(plan: Plan, task: PlanTask) -> str:
    """A task without a repo uses the only one of the plan."""
    return task.repo or next(iter(plan.repos))


def policy_of(repo: PlanRepo, task: PlanTask) -> VerificationPolicy:
    """How claims of the task are verified: as all of its repo, with the task's own exceptions."""
    policy = repo.verification
    changing = [*policy.expectations_change, *task.expectations_change]
    return policy.model_copy(update={"expectations_change": changing})


def phases(plan: Plan) -> list[list[str]]:
    """Each task is one phase after the last of its dependencies."""
    level: dict[str, int] = {}
    for task in topological_order(plan):
        level[task.id] = 1 + max((level[dependency] for dependency in task.depends_on), default=-1)
    result: list[list[str]] = [[] for _ in range(max(level.values()) + 1)]
    for task in plan.tasks:
        result[level[task.id]].append(task.id)
    return result


def topological_order(plan: Plan) -> list[PlanTask]:
    """The tasks, each after all its dependencies."""
    tasks = {task.id: task for task in plan.tasks}
    sorter = TopologicalSorter({task.id: task.depends_on for task in plan.tasks})
    return [tasks[task_id] for task_id in sorter.static_order()]


def critical_path(plan: Plan) -> list[str]:
    """The chain of tasks with the largest total weight, which no number of workers can shorten.

    If several are equal, the one whose tasks come first in the plan.
    """
    position = {task.id: number for number, task in enumerate(plan.tasks)}
    cost: dict[str, int] = {}
    before: dict[str, str | None] = {}
    for task in topological_order(plan):
        heaviest = min(
            task.depends_on,
            key=lambda dependency: (-cost[dependency], position[dependency]),
            default=None,
        )
        before[task.id] = heaviest
        cost[task.id] = weight_of(task) + (0 if heaviest is None else cost[heaviest])
    current: str | None = min(cost, key=lambda task_id: (-cost[task_id], position[task_id]))
    path = []
    while current is not None:
        path.append(current)
        current = before[current]
    return path[::-1]


def traits_of(plan: Plan, task: PlanTask) -> list[Trait]:
    """The traits from the plan, and those that follow from its place in the graph. The server
    chooses the model by them."""
    return all_traits(plan)[task.id]


def all_traits(plan: Plan) -> dict[str, list[Trait]]:
    """The traits of every task. A critical path of one task does not count."""
    path = critical_path(plan)
    critical = set(path) if len(path) > 1 else set()
    repos = {task.id: repo_of(plan, task) for task in plan.tasks}
    result: dict[str, list[Trait]] = {}
    for task in plan.tasks:
        traits: set[Trait] = set(task.traits)
        if task.complexity == "high":
            traits.add("high_complexity")
        if task.id in critical:
            traits.add("critical_path")
        if any(repos[dependency] != repos[task.id] for dependency in task.depends_on):
            traits.add("cross_repo")
        result[task.id] = [trait for trait in get_args(Trait) if trait in traits]
    return result


def all_models(plan: Plan, policy: Policy | None) -> dict[str, str | None]:
    """The model of every task: that of the task, of its agent, or of the policy. None: nobody has
    chosen one, and the agent uses its own default."""
    traits = all_traits(plan)
    return {task.id: _model_of(plan, task, traits[task.id], policy) for task in plan.tasks}


def _model_of(plan: Plan, task: PlanTask, traits: list[Trait], policy: Policy | None) -> str | None:
    settings = plan.agents.get(agent_name(plan, task))
    model = task.model or (None if settings is None else settings.model)
    # As the server does when it spawns the task.
    if model is None and policy is not None and (traits or repo_of(plan, task) in policy.repos):
        model = choose_model("worker", traits, policy.models).model
    return model


class Ancestry:
    """The direct and indirect dependencies of every task, as bit masks."""

    def __init__(self, plan: Plan) -> None:
        self._bit = {task.id: 1 << index for index, task in enumerate(plan.tasks)}
        self._before: dict[str, int] = {}
        for task in topological_order(plan):
            bits = 0
            for dependency in task.depends_on:
                bits |= self._bit[dependency] | self._before[dependency]
            self._before[task.id] = bits

    def are_ordered(self, one: str, other: str) -> bool:
        """Whether one of them depends on the other, directly or indirectly."""
        return bool(self._before[one] & self._bit[other] or self._before[other] & self._bit[one])


# The agent kind that needs a command line.
COMMAND_KIND: Final = "command"


def agent_name(plan: Plan, task: PlanTask) -> str:
    return task.agent or plan.agent


def review_of(plan: Plan, task: PlanTask) -> Review:
    return task.review or plan.review


_Patterns = tuple[str, ...]


class TaskOverlap(NamedTuple):
    """Two tasks that own the same path, with a pattern of each and a path that both cover.
    `is_ordered` means that one depends on the other, so they never run at the same time."""

    left: str
    right: str
    repo: str
    left_pattern: str
    right_pattern: str
    example: str
    is_ordered: bool


def plan_overlaps(plan: Plan) -> list[TaskOverlap]:
    """The overlaps in the order of the plan. The earlier task is on the left."""
    ancestry = Ancestry(plan)
    # Many tasks may own the same patterns.
    by_patterns: dict[tuple[_Patterns, _Patterns], Overlap | None] = {}
    result = []
    for first, second in sorted(_candidates(plan)):
        left, right = plan.tasks[first], plan.tasks[second]
        key = (tuple(left.files_owned), tuple(right.files_owned))
        if key not in by_patterns:
            # Ignores case, as the server does, because some file systems do.
            pairs = overlaps(_owned(left), _owned(right), case_insensitive=True)
            by_patterns[key] = pairs[0] if pairs else None
        overlap = by_patterns[key]
        if overlap is not None:
            ordered = ancestry.are_ordered(left.id, right.id)
            result.append(TaskOverlap(left.id, right.id, repo_of(plan, left), *overlap, ordered))
    return result


def _candidates(plan: Plan) -> set[tuple[int, int]]:
    """Pairs of task indexes that may overlap, because the fixed part of one pattern is a prefix of
    the other's. So a plan of two thousand tasks does not need two million comparisons."""
    by_prefix: dict[tuple[str, tuple[str, ...]], set[int]] = {}
    for index, task in enumerate(plan.tasks):
        for prefix in _prefixes(task):
            by_prefix.setdefault((repo_of(plan, task), prefix), set()).add(index)
    pairs: set[tuple[int, int]] = set()
    for (repo, prefix), indexes in by_prefix.items():
        for length in range(len(prefix) + 1):
            for other in by_prefix.get((repo, prefix[:length]), ()):
                pairs.update(
                    (min(index, other), max(index, other)) for index in indexes if index != other
                )
    return pairs


def _prefixes(task: PlanTask) -> Iterator[tuple[str, ...]]:
    for text in _owned(task):
        yield _fixed_part(pattern_of(text, case_insensitive=True))


def _owned(task: PlanTask) -> list[str]:
    return [pattern for text in task.files_owned for pattern in expand_braces(text)]


def _fixed_part(pattern: Pattern) -> tuple[str, ...]:
    for index, segment in enumerate(pattern.segments):
        if "*" in segment or "?" in segment:
            return pattern.segments[:index]
    return pattern.segments
