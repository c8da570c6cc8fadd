"""What all parts of a run stand on."""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from shiftboss.agents.agent import Agent
from shiftboss.errors import Conflict, InvalidRequest
from shiftboss.orchestrator.attempt.workspace import AgentAssignment
from shiftboss.orchestrator.guardian.agent_process import ProcessLimits
from shiftboss.orchestrator.run.plan_branches import PlanBranches
from shiftboss.orchestrator.run.progress import Progress
from shiftboss.orchestrator.run.server_client import RunServerClient
from shiftboss.orchestrator.worktrees.worktrees import Worktrees
from shiftboss.protocol.plan import Plan, PlanAgent, PlanRepo, PlanTask
from shiftboss.rules.runs.merge_tasks import original_of

# Where a run keeps its things: beside the database what people read, elsewhere the trees.


@dataclass(frozen=True, slots=True)
class RunPaths:
    """`state` is the folder of the database. Work trees lie outside of it, because it may be inside
    of a repository, where tools would find the settings of the folders above."""

    state: Path
    swarm_id: str
    trees: Path

    @classmethod
    def of(cls, state: Path, swarm_id: str, trees: Path | None = None) -> RunPaths:
        """Raises InvalidRequest when the trees would lie inside of a repository."""
        state = state.resolve()
        if trees is not None:
            _refuse_inside(trees.resolve())
        return cls(state, swarm_id, (trees or _usual_trees(state)).resolve())

    @property
    def run(self) -> Path:
        return self.state / "runs" / self.swarm_id

    @property
    def landing(self) -> Path:
        """For checkouts of merged work, which are tested like any other. Nothing is made, and
        nothing removed, outside of the folder that was named."""
        return self.trees / ".landing"

    def scratch(self, assignment: AgentAssignment) -> Path:
        return self.run / assignment.name

    @contextmanager
    def held(self) -> Iterator[None]:
        """One orchestrator for each swarm."""
        self.run.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (self.run / "lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise Conflict(
                    f"another `shiftboss run` is at work on the swarm {self.swarm_id}",
                    hint="wait for it, or stop it first",
                ) from None
            yield


def _refuse_inside(trees: Path) -> None:
    for folder in (trees, *trees.parents):
        if os.path.lexists(folder / ".git"):
            raise InvalidRequest(
                f"{trees} is inside of the repository {folder}",
                field="trees",
                hint="name a folder outside of every repository for the work trees",
            )


def _usual_trees(state: Path) -> Path:
    home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    name = hashlib.sha256(str(state).encode()).hexdigest()[:16]
    return Path(home) / "shiftboss" / name / "trees"


@dataclass(frozen=True, slots=True)
class RunContext:
    """Made once for a run; what changes is in the server, in git and on the board."""

    plan: Plan
    places: RunPaths
    trees: Worktrees
    branches: PlanBranches
    line: RunServerClient
    board: Progress
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
