"""Phases, the critical path, traits, overlaps, and the simulated run."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shiftboss.protocol.plan import Plan
from shiftboss.protocol.policy import Policy
from shiftboss.rules.paths.overlap import overlaps
from shiftboss.rules.plans.graph import (
    critical_path,
    phases,
    plan_overlaps,
    topological_order,
    traits_of,
    weight_of,
)
from shiftboss.rules.plans.schedule import ScheduleStep, dry_run, schedule

LAYERS = Policy.model_validate(
    {
        "repos": {
            "core": {"path": "core"},
            "vm": {"path": "vm", "depends_on": ["core"]},
            "net": {"path": "net", "depends_on": ["vm"]},
        }
    }
)


def made(*tasks: dict[str, Any], repos: tuple[str, ...] = ("app",)) -> Plan:
    return Plan.model_validate(
        {"goal": "G", "repos": {name: {} for name in repos}, "tasks": list(tasks)}
    )


def task(task_id: str, *after: str, **members: Any) -> dict[str, Any]:
    usual = {"id": task_id, "title": "T", "files_owned": [f"{task_id}.py"]}
    return usual | {"depends_on": list(after)} | members


def times(steps: list[ScheduleStep]) -> dict[str, tuple[int, int]]:
    return {step.task: (step.starts, step.ends) for step in steps}


DIAMOND = made(
    task("last", "left", "right"),
    task("left", "first", complexity="low"),
    task("right", "first", complexity="high"),
    task("first"),
    task("alone", complexity="high"),
)


def test_a_task_comes_one_phase_after_the_last_of_its_dependencies() -> None:
    assert phases(DIAMOND) == [["first", "alone"], ["left", "right"], ["last"]]


def test_the_critical_path_is_the_heaviest_chain_and_not_the_longest() -> None:
    assert critical_path(DIAMOND) == ["first", "right", "last"]
    heavy = made(task("a"), task("b", "a"), task("c", complexity="high"), task("d", "c"))
    assert critical_path(heavy) == ["c", "d"]
    long = made(*(task(f"l{i}", *([f"l{i - 1}"] if i else []), complexity="low") for i in range(3)))
    assert critical_path(long) == ["l0", "l1", "l2"]


def test_of_equal_paths_the_first_in_the_plan_is_the_critical_one() -> None:
    assert critical_path(made(task("b"), task("a"), task("d", "a"), task("c", "b"))) == ["a", "d"]


def test_traits_come_from_the_plan_and_from_the_position_in_it() -> None:
    found = made(
        task("core", repo="core", complexity="high"),
        task("vm", "core", repo="vm", traits=["security_sensitive"]),
        task("docs", repo="vm"),
        repos=("core", "vm"),
    )
    assert [traits_of(found, task) for task in found.tasks] == [
        ["high_complexity", "critical_path"],
        ["critical_path", "security_sensitive", "cross_repo"],
        [],
    ]


def test_a_single_task_is_not_a_critical_path() -> None:
    alone = made(task("a"), task("b"))
    assert critical_path(alone) == ["a"]
    assert traits_of(alone, alone.tasks[0]) == []


def test_overlaps_are_found_within_a_repo_with_an_example() -> None:
    found = plan_overlaps(
        made(
            task("a", repo="app", files_owned=["src/"]),
            task("b", repo="app", files_owned=["docs/x.md", "SRC/b.py"]),
            task("c", "a", repo="app", files_owned=["src/*.py"]),
            task("d", repo="lib", files_owned=["src/"]),
            repos=("app", "lib"),
        )
    )
    assert [(one.left, one.right, one.example, one.is_ordered) for one in found] == [
        ("a", "b", "src/b.py", False),
        ("a", "c", "src/.py", True),
        ("b", "c", "src/b.py", False),
    ]
    assert (found[0].left_pattern, found[0].right_pattern) == ("src/", "SRC/b.py")


@pytest.mark.requirement("HO-07")
def test_braces_are_alternatives_when_overlaps_are_searched() -> None:
    plan = made(
        task("a", files_owned=["src/{auth,lib}/*.ts"]),
        task("b", files_owned=["src/lib/"]),
        task("c", files_owned=["{docs,src/{web,api}}/**"]),
        task("d", files_owned=["src/api/x.ts"]),
    )
    assert [(one.left, one.right, one.left_pattern) for one in plan_overlaps(plan)] == [
        ("a", "b", "src/lib/*.ts"),
        ("c", "d", "src/api/**"),
    ]


def test_two_workers_start_with_the_tasks_that_block_the_most_work() -> None:
    assert times(schedule(DIAMOND, 2)) == {
        "first": (0, 2),
        "alone": (0, 4),
        "right": (2, 6),
        "left": (4, 5),
        "last": (6, 8),
    }
    one_by_one = schedule(DIAMOND, 1)
    assert sum(weight_of(task) for task in DIAMOND.tasks) == one_by_one[-1].ends == 13
    waits = {step.task: [wait.kind for wait in step.waits] for step in one_by_one}
    assert waits["alone"] == ["worker"]


def test_tasks_that_own_the_same_files_run_one_after_the_other() -> None:
    steps = schedule(made(task("a", files_owned=["**"]), task("b", files_owned=["b.py"])), 4)
    assert times(steps) == {"a": (0, 2), "b": (2, 4)}
    assert [wait.why for wait in steps[1].waits] == ["a also owns b.py"]


@pytest.mark.parametrize(("locking", "net"), [("neighbours", 0), ("chain", 2)])
def test_a_policy_locks_repos_in_the_simulation_too(locking: str, net: int) -> None:
    found = made(
        task("core", repo="core"),
        task("net", repo="net"),
        task("vm", repo="vm"),
        repos=("core", "vm", "net"),
    )
    policy = LAYERS.model_copy(update={"locking": locking})
    steps = {step.task: step for step in schedule(found, 4, policy)}
    assert (steps["core"].starts, steps["net"].starts) == (0, net)
    assert steps["vm"].starts > 0
    assert steps["vm"].waits[0].why == "core is a dependency that is being worked on (core)"
    assert {step.starts for step in schedule(found, 4)} == {0}


def test_a_dry_run_returns_everything_as_plain_data() -> None:
    two = made(task("a", repo="core"), task("b", "a", repo="vm"), repos=("core", "vm"))
    schedule = dry_run(two, LAYERS, 3).as_json()
    assert schedule["locked"] == [("core", "vm")]
    assert (schedule["workers"], schedule["length"], schedule["critical_length"]) == (3, 4, 4)
    assert (schedule["phases"], schedule["critical_path"]) == ([["a"], ["b"]], ["a", "b"])
    assert schedule["steps"][1] == {
        "task": "b",
        "repo": "vm",
        "worker": 1,
        "starts": 2,
        "ends": 4,
        "waits": [{"kind": "task", "task": "a", "why": "a lands"}],
        "agent": "claude",
        "model": None,
        "traits": ["critical_path", "cross_repo"],
    }


PATTERNS = st.sampled_from(
    ["**", "src/", "src/a.py", "src/*.py", "SRC/a.py", "*/a.py", "docs/**/x", "docs/?.md", "tests"]
)


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    count = draw(st.integers(1, 7))
    repos = ("core", "vm", "net")
    tasks = []
    for place in range(count):
        earlier = [f"t{one}" for one in range(place)]
        after = draw(st.lists(st.sampled_from(earlier), unique=True)) if earlier else []
        tasks.append(
            task(
                f"t{place}",
                *after,
                repo=draw(st.sampled_from(repos)),
                files_owned=draw(st.lists(PATTERNS, min_size=1, max_size=3, unique=True)),
                complexity=draw(st.sampled_from(["low", "normal", "high"])),
                priority=draw(st.integers(-2, 2)),
            )
        )
    return made(*draw(st.permutations(tasks)), repos=repos)


def meet(one: ScheduleStep, other: ScheduleStep) -> bool:
    return one.starts < other.ends and other.starts < one.ends


@settings(max_examples=150, deadline=None)
@given(plans(), st.integers(1, 4), st.sampled_from([None, LAYERS]))
def test_a_simulated_run_keeps_every_rule(plan: Plan, workers: int, policy: Policy | None) -> None:
    steps = {step.task: step for step in schedule(plan, workers, policy)}
    tasks = {task.id: task for task in plan.tasks}
    assert set(steps) == set(tasks)
    for owner in plan.tasks:
        assert all(steps[after].ends <= steps[owner.id].starts for after in owner.depends_on)
    overlapping = {frozenset((pair.left, pair.right)) for pair in plan_overlaps(plan)}
    for one, other in combinations(steps.values(), 2):
        same_repo = one.repo == other.repo
        patterns = (tasks[one.task].files_owned, tasks[other.task].files_owned)
        owned_by_both = same_repo and bool(overlaps(*patterns, case_insensitive=True))
        assert (frozenset((one.task, other.task)) in overlapping) == owned_by_both
        if meet(one, other):
            assert one.worker != other.worker
            assert not owned_by_both
            assert policy is None or {one.repo, other.repo} == {"core", "net"}
    assert max(step.worker for step in steps.values()) <= workers
    path = [tasks[name] for name in critical_path(plan)]
    assert sum(map(weight_of, path)) <= max(step.ends for step in steps.values())


@given(plans())
def test_the_order_puts_every_task_after_its_dependencies(plan: Plan) -> None:
    place = {one.id: number for number, one in enumerate(topological_order(plan))}
    assert len(place) == len(plan.tasks)
    assert all(place[after] < place[task.id] for task in plan.tasks for after in task.depends_on)
    level = {one: number for number, names in enumerate(phases(plan)) for one in names}
    for one in plan.tasks:
        assert level[one.id] == 1 + max((level[after] for after in one.depends_on), default=-1)
