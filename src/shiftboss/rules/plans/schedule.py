"""The schedule of a plan: priorities, a simulated run, and the dry run that shows it.

In the simulation a task takes as long as its weight.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

from shiftboss.protocol.bus import PRIORITY_MAX
from shiftboss.protocol.plan import Plan, PlanTask
from shiftboss.protocol.policy import Policy, Trait
from shiftboss.rules.contract.repo_graph import RepoGraph
from shiftboss.rules.plans.graph import (
    TaskOverlap,
    agent_name,
    all_models,
    all_traits,
    critical_path,
    phases,
    plan_overlaps,
    repo_of,
    topological_order,
    weight_of,
)

# One step of a task's own priority outweighs any path through an ordinary plan.
_STEP = 50


def priorities(plan: Plan) -> dict[str, int]:
    """The order of handing out: tasks at the start of long paths first, plus their own priority."""
    by_id = {task.id: task for task in plan.tasks}
    longest = {task.id: weight_of(task) for task in plan.tasks}
    for task in reversed(topological_order(plan)):
        for before in task.depends_on:
            path = weight_of(by_id[before]) + longest[task.id]
            longest[before] = max(longest[before], path)
    return {
        task_id: max(-PRIORITY_MAX, min(PRIORITY_MAX, length + _STEP * by_id[task_id].priority))
        for task_id, length in longest.items()
    }


WaitKind = Literal["task", "files", "lock", "worker"]


class Wait(NamedTuple):
    """Why a task waited: for another task to land, for files of another task, for a locked repo, or
    for a free worker. `task` is the other task, if there is one."""

    kind: WaitKind
    task: str | None
    why: str


_ALL_BUSY: Final = Wait("worker", None, "all workers are busy")


class ScheduleStep(NamedTuple):
    """One task of the simulated run. Times are in weights since the start; workers count from 1."""

    task: str
    repo: str
    worker: int
    starts: int
    ends: int
    waits: tuple[Wait, ...]


def schedule(
    plan: Plan,
    workers: int,
    policy: Policy | None = None,
    overlapping: Iterable[TaskOverlap] | None = None,
) -> list[ScheduleStep]:
    """The steps in the order of their start. Ready tasks start in the order in which the server
    hands them out. Tasks with overlapping files, or in repos that lock each other by the policy,
    never run at the same time."""
    overlap_list = plan_overlaps(plan) if overlapping is None else overlapping
    run = _SimulatedRun(plan, workers, Conflicts(plan, overlap_list, policy))
    while run.waiting:
        run.start_ready()
        run.finish_next()
    return run.steps


class Conflicts:
    """What keeps a task from running at the same time as others."""

    def __init__(
        self, plan: Plan, overlapping: Iterable[TaskOverlap], policy: Policy | None
    ) -> None:
        self._files: dict[str, dict[str, str]] = {task.id: {} for task in plan.tasks}
        for overlap in overlapping:
            self._files[overlap.left][overlap.right] = overlap.example
            self._files[overlap.right][overlap.left] = overlap.example
        self._graph: RepoGraph | None = None
        if policy is not None:
            self._graph = RepoGraph({name: repo.depends_on for name, repo in policy.repos.items()})
            self._known = policy.repos.keys()
            self._chain = policy.locking == "chain"

    def of(self, task_id: str, repo: str, active: dict[str, str]) -> list[Wait]:
        """Why the task cannot start. `active` maps the running tasks to their repos."""
        shared = self._files[task_id]
        waits = [
            Wait("files", other, f"{other} also owns {shared[other]}")
            for other in active
            if other in shared
        ]
        if self._graph is not None and repo in self._known:
            holders = {held: other for other, held in active.items() if held in self._known}
            waits += [
                Wait("lock", holders[blocker.repo], f"{blocker} ({holders[blocker.repo]})")
                for blocker in self._graph.blockers(repo, holders, chain=self._chain)
            ]
        return waits


@dataclass
class _SimulatedRun:
    plan: Plan
    workers: int
    conflicts: Conflicts
    now: int = 0
    steps: list[ScheduleStep] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.free = list(range(1, self.workers + 1))
        self._running: list[ScheduleStep] = []
        order = priorities(self.plan)
        self._active: dict[str, str] = {}
        self.waiting = {
            task.id: task for task in sorted(self.plan.tasks, key=lambda task: -order[task.id])
        }
        self._missing = {task.id: set(task.depends_on) for task in self.plan.tasks}
        self._needed_by: dict[str, list[str]] = {task.id: [] for task in self.plan.tasks}
        for task in self.plan.tasks:
            for dependency in set(task.depends_on):
                self._needed_by[dependency].append(task.id)
        # Everything that each task had to wait for.
        self._waits: dict[str, dict[Wait, None]] = {
            task.id: {Wait("task", name, f"{name} lands"): None for name in task.depends_on}
            for task in self.plan.tasks
        }

    def start_ready(self) -> None:
        for task in list(self.waiting.values()):
            if self._missing[task.id]:
                continue
            repo = repo_of(self.plan, task)
            waits = self.conflicts.of(task.id, repo, self._active) if self.free else [_ALL_BUSY]
            if waits:
                self._waits[task.id].update(dict.fromkeys(waits))
            else:
                self._start(task, repo)

    def _start(self, task: PlanTask, repo: str) -> None:
        worker = min(self.free)
        self.free.remove(worker)
        del self.waiting[task.id]
        waits = tuple(self._waits[task.id])
        step = ScheduleStep(task.id, repo, worker, self.now, self.now + weight_of(task), waits)
        self._active[task.id] = repo
        self._running.append(step)
        self.steps.append(step)

    def finish_next(self) -> None:
        """Finish all tasks with the earliest end."""
        self.now = min(step.ends for step in self._running)
        ended = [step for step in self._running if step.ends == self.now]
        self._running = [step for step in self._running if step.ends > self.now]
        for step in ended:
            del self._active[step.task]
            self.free.append(step.worker)
            for other in self._needed_by[step.task]:
                self._missing[other].discard(step.task)


def locked_pairs(repos: Collection[str], policy: Policy | None) -> list[tuple[str, str]]:
    """Pairs of repos that cannot be worked on at the same time under the policy."""
    if policy is None:
        return []
    graph = RepoGraph({name: repo.depends_on for name, repo in policy.repos.items()})
    known = [name for name in repos if name in policy.repos]
    chain = policy.locking == "chain"
    return [
        (repo, other)
        for index, repo in enumerate(known)
        for other in known[index + 1 :]
        if not graph.can_parallel(repo, other, chain=chain)
    ]


class DryRun(NamedTuple):
    """What a run of the plan would do.

    `length` is the duration of the run and `critical_length` that of its critical path, both in
    weights (low 1, normal 2, high 4). `locked` are pairs of repos that exclude each other.
    `traits`, `agents` and `models` are by task.
    """

    goal: str
    swarm: str | None
    workers: int
    phases: list[list[str]]
    steps: list[ScheduleStep]
    length: int
    critical_path: list[str]
    critical_length: int
    overlaps: list[TaskOverlap]
    locked: list[tuple[str, str]]
    traits: dict[str, list[Trait]]
    agents: dict[str, str]
    models: dict[str, str | None]

    def as_json(self) -> dict[str, Any]:
        view = self._asdict()
        view["steps"] = [_step_view(self, step) for step in self.steps]
        view["overlaps"] = [overlap._asdict() for overlap in self.overlaps]
        del view["agents"], view["models"], view["traits"]
        return view


def dry_run(plan: Plan, policy: Policy | None, workers: int) -> DryRun:
    overlapping = plan_overlaps(plan)
    steps = schedule(plan, workers, policy, overlapping)
    path = critical_path(plan)
    tasks = {task.id: task for task in plan.tasks}
    return DryRun(
        goal=plan.goal,
        swarm=plan.swarm,
        workers=workers,
        phases=phases(plan),
        steps=steps,
        length=max(step.ends for step in steps),
        critical_path=path,
        critical_length=sum(weight_of(tasks[task_id]) for task_id in path),
        overlaps=overlapping,
        locked=locked_pairs(plan.repos, policy),
        traits=all_traits(plan),
        agents={task.id: agent_name(plan, task) for task in plan.tasks},
        models=all_models(plan, policy),
    )


def _step_view(run: DryRun, step: ScheduleStep) -> dict[str, Any]:
    return step._asdict() | {
        "waits": [wait._asdict() for wait in step.waits],
        "agent": run.agents[step.task],
        "model": run.models[step.task],
        "traits": run.traits[step.task],
    }
