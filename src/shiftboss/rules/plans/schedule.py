"""What of a plan would start when: a run on paper, in which a task takes as long as its weight."""

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
    all_traits,
    critical_path,
    in_order,
    phases,
    plan_overlaps,
    repo_of,
    weight_of,
)

# In which order the tasks of a plan are handed out: what most waits for comes first.


# One step of the plan's own priority weighs more than any path through an ordinary plan.
_STEP = 50


def priorities(plan: Plan) -> dict[str, int]:
    """By the weight of the longest path from each task to the end, and by what the plan says."""
    by_id = {task.id: task for task in plan.tasks}
    longest = {task.id: weight_of(task) for task in plan.tasks}
    for task in reversed(in_order(plan)):
        for before in task.depends_on:
            path = weight_of(by_id[before]) + longest[task.id]
            longest[before] = max(longest[before], path)
    return {
        task_id: max(-PRIORITY_MAX, min(PRIORITY_MAX, length + _STEP * by_id[task_id].priority))
        for task_id, length in longest.items()
    }


WaitKind = Literal["task", "files", "lock", "worker"]


class Wait(NamedTuple):
    """What a task waited for: another task to land, files that another owns, a repo that is locked,
    or a free worker. `task` is the other one, where there is one."""

    kind: WaitKind
    task: str | None
    why: str


_ALL_BUSY: Final = Wait("worker", None, "all workers are busy")


class ScheduleStep(NamedTuple):
    """A task at work. Times are in weights since the start; workers count from 1."""

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
    """By their starts. Ready tasks go as the server hands them out. Tasks whose files
    overlap, and with a policy repos that are locked, never run at once."""
    met = plan_overlaps(plan) if overlapping is None else overlapping
    run = _SimulatedRun(plan, workers, Conflicts(plan, met, policy))
    while run.waiting:
        run.start_what_can()
        run.end_the_next()
    return run.steps


class Conflicts:
    """What keeps a task from running beside others."""

    def __init__(
        self, plan: Plan, overlapping: Iterable[TaskOverlap], policy: Policy | None
    ) -> None:
        self._files: dict[str, dict[str, str]] = {task.id: {} for task in plan.tasks}
        for one in overlapping:
            self._files[one.left][one.right] = self._files[one.right][one.left] = one.example
        self._graph: RepoGraph | None = None
        if policy is not None:
            self._graph = RepoGraph({name: repo.depends_on for name, repo in policy.repos.items()})
            self._known = policy.repos.keys()
            self._chain = policy.locking == "chain"

    def of(self, task_id: str, repo: str, active: dict[str, str]) -> list[Wait]:
        """`active` has the tasks at work with their repos."""
        mine = self._files[task_id]
        found = [
            Wait("files", other, f"{other} owns {mine[other]} too")
            for other in active
            if other in mine
        ]
        if self._graph is not None and repo in self._known:
            holders = {held: other for other, held in active.items() if held in self._known}
            found += [
                Wait("lock", holders[one.repo], f"{one} ({holders[one.repo]})")
                for one in self._graph.blockers(repo, holders, chain=self._chain)
            ]
        return found


@dataclass
class _SimulatedRun:
    plan: Plan
    workers: int
    obstacles: Conflicts
    now: int = 0
    steps: list[ScheduleStep] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.free = list(range(1, self.workers + 1))
        self._at_work: list[ScheduleStep] = []
        order = priorities(self.plan)
        self._active: dict[str, str] = {}
        self.waiting = {
            task.id: task for task in sorted(self.plan.tasks, key=lambda one: -order[one.id])
        }
        self._missing = {task.id: set(task.depends_on) for task in self.plan.tasks}
        self._needed_by: dict[str, list[str]] = {task.id: [] for task in self.plan.tasks}
        for task in self.plan.tasks:
            for one in set(task.depends_on):
                self._needed_by[one].append(task.id)
        # What each was seen to wait for after its dependencies had landed.
        self._seen: dict[str, dict[Wait, None]] = {
            task.id: {Wait("task", one, f"{one} lands"): None for one in task.depends_on}
            for task in self.plan.tasks
        }

    def start_what_can(self) -> None:
        for task in list(self.waiting.values()):
            if self._missing[task.id]:
                continue
            repo = repo_of(self.plan, task)
            standing = self.obstacles.of(task.id, repo, self._active) if self.free else [_ALL_BUSY]
            if standing:
                self._seen[task.id].update(dict.fromkeys(standing))
            else:
                self._start(task, repo)

    def _start(self, task: PlanTask, repo: str) -> None:
        worker = min(self.free)
        self.free.remove(worker)
        del self.waiting[task.id]
        waits = tuple(self._seen[task.id])
        step = ScheduleStep(task.id, repo, worker, self.now, self.now + weight_of(task), waits)
        self._active[task.id] = repo
        self._at_work.append(step)
        self.steps.append(step)

    def end_the_next(self) -> None:
        """All that end at the next time when something ends."""
        self.now = min(step.ends for step in self._at_work)
        ended = [step for step in self._at_work if step.ends == self.now]
        self._at_work = [step for step in self._at_work if step.ends > self.now]
        for step in ended:
            del self._active[step.task]
            self.free.append(step.worker)
            for other in self._needed_by[step.task]:
                self._missing[other].discard(step.task)


def locked_pairs(repos: Collection[str], policy: Policy | None) -> list[tuple[str, str]]:
    """Repos of the plan that cannot be worked on at once, by the policy."""
    if policy is None:
        return []
    graph = RepoGraph({name: repo.depends_on for name, repo in policy.repos.items()})
    known = [name for name in repos if name in policy.repos]
    chain = policy.locking == "chain"
    return [
        (one, other)
        for place, one in enumerate(known)
        for other in known[place + 1 :]
        if not graph.can_parallel(one, other, chain=chain)
    ]


# What a run of a plan would do, found out without doing anything.


class DryRun(NamedTuple):
    """`length` is how long the run takes and `critical_length` how long its critical path, both in
    weights (low 1, normal 2, high 4). `locked` are repos that exclude each other. `traits` and
    `agents` are by task."""

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

    def as_json(self) -> dict[str, Any]:
        said = self._asdict()
        said["steps"] = [_step(self, step) for step in self.steps]
        said["overlaps"] = [one._asdict() for one in self.overlaps]
        del said["agents"], said["traits"]
        return said


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
        critical_length=sum(weight_of(tasks[one]) for one in path),
        overlaps=overlapping,
        locked=locked_pairs(plan.repos, policy),
        traits=all_traits(plan),
        agents={task.id: agent_name(plan, task) for task in plan.tasks},
    )


def _step(found: DryRun, step: ScheduleStep) -> dict[str, Any]:
    return step._asdict() | {
        "waits": [wait._asdict() for wait in step.waits],
        "agent": found.agents[step.task],
        "traits": found.traits[step.task],
    }
