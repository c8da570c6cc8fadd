"""What all parts of a run share: the plan, the folders, the client of the server, the progress."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shiftboss.agents.agent import Agent
from shiftboss.defaults import RUNS_FOLDER
from shiftboss.errors import InvalidRequest
from shiftboss.orchestrator.attempt.workspace import AgentAssignment
from shiftboss.orchestrator.guardian.agent_process import ProcessLimits
from shiftboss.orchestrator.run.plan_branches import PlanBranches
from shiftboss.orchestrator.run.progress import Progress
from shiftboss.orchestrator.run.run_lock import Role, hold_run_lock
from shiftboss.orchestrator.run.server_client import RunServerClient
from shiftboss.orchestrator.worktrees.worktree_folder import WorktreeFolder
from shiftboss.protocol.handoff_requests import Landing, Review
from shiftboss.protocol.handoffs import HeldOutTests
from shiftboss.protocol.plan import Plan, PlanAgent, PlanRepo, PlanTask
from shiftboss.rules.plans.graph import review_of
from shiftboss.rules.runs.merge_tasks import original_of
from shiftboss.rules.tasks.waiting import HERE, CommandPlace


@dataclass(frozen=True, slots=True)
class RunPaths:
    """The folders of a run. `state` is the folder of the database. The work trees are elsewhere:
    `state` may be inside a repository, and tools that run in a work tree would pick up settings
    from the folders above it."""

    state: Path
    swarm_id: str
    trees: Path

    @classmethod
    def of(cls, state: Path, swarm_id: str, trees: Path | None = None) -> RunPaths:
        """Raises InvalidRequest if `trees` is inside a repository."""
        state = state.resolve()
        if trees is not None:
            _refuse_inside_repository(trees.resolve())
        return cls(state, swarm_id, (trees or _default_trees(state)).resolve())

    @property
    def folder(self) -> Path:
        """Where the run keeps its log, and one scratch folder per attempt."""
        return self.state / RUNS_FOLDER / self.swarm_id

    @property
    def landing(self) -> Path:
        """For clean checkouts of merged work. Inside `trees`: nothing is created or removed outside
        the folder that the user named."""
        return self.trees / ".landing"

    def scratch(self, assignment: AgentAssignment) -> Path:
        return self.folder / assignment.name

    def lock(self, role: Role) -> AbstractContextManager[None]:
        """Lock the swarm: only one orchestrator works on it at a time. Raises Conflict."""
        return hold_run_lock(self.folder, self.swarm_id, role)


def _refuse_inside_repository(trees: Path) -> None:
    for folder in (trees, *trees.parents):
        if os.path.lexists(folder / ".git"):
            raise InvalidRequest(
                f"{trees} is inside the repository {folder}",
                field="trees",
                hint="choose a folder outside of every repository for the work trees",
            )


def _default_trees(state: Path) -> Path:
    home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    name = hashlib.sha256(str(state).encode()).hexdigest()[:16]
    return Path(home) / "shiftboss" / name / "trees"


@dataclass(frozen=True, slots=True)
class RunContext:
    """Created once per run and passed to all of its parts. It does not change: the changing state
    is in the server, in git and in `progress`."""

    plan: Plan
    paths: RunPaths
    worktrees: WorktreeFolder
    branches: PlanBranches
    client: RunServerClient
    progress: Progress
    agents: Mapping[str, Agent]
    limits: ProcessLimits
    plan_file: Path | None = None
    command_place: CommandPlace = HERE
    # By task. Only the server gets them; they must be in no prompt, log or file of the run.
    held_out: Mapping[str, HeldOutTests] = field(default_factory=dict, repr=False)
    # Names of variables that agents do not inherit: with a forge's token one could forge its CI.
    forge_secrets: frozenset[str] = frozenset()

    def task(self, bead_id: str) -> PlanTask:
        """The plan's entry of a task. For a merge task: the entry of the task that it merges."""
        original = original_of(bead_id)
        return next(task for task in self.plan.tasks if task.id == original)

    def knows(self, bead_id: str) -> bool:
        original = original_of(bead_id)
        return any(task.id == original for task in self.plan.tasks)

    def repo_name(self, task: PlanTask) -> str:
        return task.repo or next(iter(self.plan.repos))

    def repo(self, task: PlanTask) -> PlanRepo:
        return self.plan.repos[self.repo_name(task)]

    def landing(self, task: PlanTask) -> Landing:
        return self.repo(task).landing or self.plan.landing

    def review(self, task: PlanTask) -> Review:
        return review_of(self.plan, task)

    def held_out_of(self, task: PlanTask) -> dict[str, Any] | None:
        """The member of a spawn request. A merge of the task's work has the same ones."""
        tests = self.held_out.get(task.id)
        return None if tests is None else tests.model_dump()

    def settings(self, task: PlanTask) -> PlanAgent:
        """The agent of a task. A name that the plan does not define is the kind of the agent."""
        name = task.agent or self.plan.agent
        return self.plan.agents.get(name) or PlanAgent(kind=name)
