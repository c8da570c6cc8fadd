"""The tasks of a plan as a graph: what comes after what, what the end waits for, what each is like.

For plans that were read: every dependency is there, and there is no circle.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from graphlib import TopologicalSorter
from typing import Final, NamedTuple, get_args

from shiftboss.protocol.plan import Plan, PlanTask
from shiftboss.protocol.policy import Trait
from shiftboss.rules.paths.overlap import Overlap, overlaps
from shiftboss.rules.paths.patterns import Pattern, pattern_of

# How long a task is thought to take, compared with others.
WEIGHTS: Final[Mapping[str, int]] = {"low": 1, "normal": 2, "high": 4}


def weight_of(task: PlanTask) -> int:
    return WEIGHTS[task.complexity]


def repo_of(plan: Plan, task: PlanTask) -> str:
    """A task that names none works on the only one."""
    return task.repo or next(iter(plan.repos))


def phases(plan: Plan) -> list[list[str]]:
    """A task comes one phase after the last of its dependencies."""
    level: dict[str, int] = {}
    for task in in_order(plan):
        level[task.id] = 1 + max((level[one] for one in task.depends_on), default=-1)
    found: list[list[str]] = [[] for _ in range(max(level.values()) + 1)]
    for task in plan.tasks:
        found[level[task.id]].append(task.id)
    return found


def in_order(plan: Plan) -> list[PlanTask]:
    """Each after all that it depends on."""
    tasks = {task.id: task for task in plan.tasks}
    sorter = TopologicalSorter({task.id: task.depends_on for task in plan.tasks})
    return [tasks[one] for one in sorter.static_order()]


def critical_path(plan: Plan) -> list[str]:
    """The heaviest chain: the plan cannot end sooner, however many work on it. Of several that are
    as heavy, the one whose tasks the plan names first."""
    place = {task.id: number for number, task in enumerate(plan.tasks)}
    cost: dict[str, int] = {}
    before: dict[str, str | None] = {}
    for task in in_order(plan):
        heaviest = min(task.depends_on, key=lambda one: (-cost[one], place[one]), default=None)
        before[task.id] = heaviest
        cost[task.id] = weight_of(task) + (0 if heaviest is None else cost[heaviest])
    at: str | None = min(cost, key=lambda one: (-cost[one], place[one]))
    path = []
    while at is not None:
        path.append(at)
        at = before[at]
    return path[::-1]


def traits_of(plan: Plan, task: PlanTask) -> list[Trait]:
    """What the plan says of the task, and what its place in the plan says: the server chooses the
    model by it."""
    return all_traits(plan)[task.id]


def all_traits(plan: Plan) -> dict[str, list[Trait]]:
    """A critical path of a single task is none: nothing waits for it."""
    path = critical_path(plan)
    critical = set(path) if len(path) > 1 else set()
    repos = {task.id: repo_of(plan, task) for task in plan.tasks}
    found: dict[str, list[Trait]] = {}
    for task in plan.tasks:
        traits: set[Trait] = set(task.traits)
        if task.complexity == "high":
            traits.add("high_complexity")
        if task.id in critical:
            traits.add("critical_path")
        if any(repos[one] != repos[task.id] for one in task.depends_on):
            traits.add("cross_repo")
        found[task.id] = [one for one in get_args(Trait) if one in traits]
    return found


class Ancestry:
    """Who comes before whom, directly or not. Sets of tasks are the bits of a number."""

    def __init__(self, plan: Plan) -> None:
        self._bit = {task.id: 1 << place for place, task in enumerate(plan.tasks)}
        self._before: dict[str, int] = {}
        for task in in_order(plan):
            bits = 0
            for one in task.depends_on:
                bits |= self._bit[one] | self._before[one]
            self._before[task.id] = bits

    def are_ordered(self, one: str, other: str) -> bool:
        """Whether one of them waits for the other anyway."""
        return bool(self._before[one] & self._bit[other] or self._before[other] & self._bit[one])


# Which agent does a task of a plan. A kind of agent may be named without settings of its own.


# The kind that is nothing without its command line.
COMMAND_KIND: Final = "command"


def agent_name(plan: Plan, task: PlanTask) -> str:
    return task.agent or plan.agent


# Which tasks of a plan own the same paths, so that they cannot be worked on at once.


_Patterns = tuple[str, ...]


class TaskOverlap(NamedTuple):
    """Two tasks, a pattern of each, and a path that both cover. `is_ordered`: one waits for the
    other anyway."""

    left: str
    right: str
    repo: str
    left_pattern: str
    right_pattern: str
    example: str
    is_ordered: bool


def plan_overlaps(plan: Plan) -> list[TaskOverlap]:
    """In the order of the plan; the earlier task is on the left."""
    ancestry = Ancestry(plan)
    # Many tasks may own the same patterns.
    known: dict[tuple[_Patterns, _Patterns], Overlap | None] = {}
    found = []
    for at, other in sorted(_candidates(plan)):
        left, right = plan.tasks[at], plan.tasks[other]
        key = (tuple(left.files_owned), tuple(right.files_owned))
        if key not in known:
            # As the server compares them: on some machines names of another case are one file.
            met = overlaps(left.files_owned, right.files_owned, case_insensitive=True)
            known[key] = met[0] if met else None
        overlap = known[key]
        if overlap is not None:
            ordered = ancestry.are_ordered(left.id, right.id)
            found.append(TaskOverlap(left.id, right.id, repo_of(plan, left), *overlap, ordered))
    return found


def _candidates(plan: Plan) -> set[tuple[int, int]]:
    """Pairs of places that may overlap: the fixed part of one pattern begins the other's. So a plan
    of two thousand tasks need not be compared each with each."""
    beginnings: dict[tuple[str, tuple[str, ...]], set[int]] = {}
    for place, task in enumerate(plan.tasks):
        for beginning in _beginnings(task):
            beginnings.setdefault((repo_of(plan, task), beginning), set()).add(place)
    pairs: set[tuple[int, int]] = set()
    for (repo, beginning), places in beginnings.items():
        for length in range(len(beginning) + 1):
            for other in beginnings.get((repo, beginning[:length]), ()):
                pairs.update((min(one, other), max(one, other)) for one in places if one != other)
    return pairs


def _beginnings(task: PlanTask) -> Iterator[tuple[str, ...]]:
    for text in task.files_owned:
        yield _fixed_part(pattern_of(text, case_insensitive=True))


def _fixed_part(pattern: Pattern) -> tuple[str, ...]:
    for place, segment in enumerate(pattern.segments):
        if "*" in segment or "?" in segment:
            return pattern.segments[:place]
    return pattern.segments
