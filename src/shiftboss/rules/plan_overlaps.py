"""Which tasks of a plan own the same paths, so that they cannot be worked on at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from shiftboss.protocol.plan import Plan, PlanTask
from shiftboss.rules.plan_graph import Ancestry, repo_of
from shiftboss.rules.scope import Pattern, pattern_of
from shiftboss.rules.scope_overlap import Overlap, overlaps

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
