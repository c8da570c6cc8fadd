"""What a run of a plan would do, found out without doing anything."""

from __future__ import annotations

from typing import Any, NamedTuple

from shiftboss.protocol.plan import Plan
from shiftboss.protocol.policy import Policy, Trait
from shiftboss.rules.plan_agents import agent_name
from shiftboss.rules.plan_graph import all_traits, critical_path, phases, weight_of
from shiftboss.rules.plan_overlaps import TaskOverlap, plan_overlaps
from shiftboss.rules.plan_schedule import Step, locked_pairs, schedule


class DryRun(NamedTuple):
    """`length` is how long the run takes and `critical_length` how long its critical path, both in
    weights (low 1, normal 2, high 4). `locked` are repos that exclude each other. `traits` and
    `agents` are by task."""

    goal: str
    swarm: str | None
    workers: int
    phases: list[list[str]]
    steps: list[Step]
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


def _step(found: DryRun, step: Step) -> dict[str, Any]:
    return step._asdict() | {
        "waits": [wait._asdict() for wait in step.waits],
        "agent": found.agents[step.task],
        "traits": found.traits[step.task],
    }
