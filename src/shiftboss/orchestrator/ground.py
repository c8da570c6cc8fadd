"""What all parts of a run stand on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from shiftboss.orchestrator.agents.agent import Agent
from shiftboss.orchestrator.board import Board
from shiftboss.orchestrator.branches import Branches
from shiftboss.orchestrator.line import Line
from shiftboss.orchestrator.places import Places
from shiftboss.orchestrator.process import ProcessLimits
from shiftboss.orchestrator.trees import Trees
from shiftboss.protocol.plan import Plan, PlanAgent, PlanRepo, PlanTask
from shiftboss.rules.runs.merge_tasks import original_of


@dataclass(frozen=True, slots=True)
class Ground:
    """Made once for a run; what changes is in the server, in git and on the board."""

    plan: Plan
    places: Places
    trees: Trees
    branches: Branches
    line: Line
    board: Board
    agents: Mapping[str, Agent]
    limits: ProcessLimits

    def task(self, bead_id: str) -> PlanTask:
        """What the plan says of a task; of one that mends a landing, what it says of the task that
        could not land."""
        wanted = original_of(bead_id)
        return next(one for one in self.plan.tasks if one.id == wanted)

    def knows(self, bead_id: str) -> bool:
        return any(one.id == original_of(bead_id) for one in self.plan.tasks)

    def repo_name(self, task: PlanTask) -> str:
        return task.repo or next(iter(self.plan.repos))

    def repo(self, task: PlanTask) -> PlanRepo:
        return self.plan.repos[self.repo_name(task)]

    def settings(self, task: PlanTask) -> PlanAgent:
        """An agent that the plan does not describe is meant by its kind."""
        name = task.agent or self.plan.agent
        return self.plan.agents.get(name) or PlanAgent(kind=name)
