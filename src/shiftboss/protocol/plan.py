"""The plan file of `shiftboss run`: a goal, repositories, agents and tasks."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from shiftboss.defaults import DEFAULT_AGENT
from shiftboss.protocol.bus import Priority, TaskId, Text, Title
from shiftboss.protocol.fields import NO_NUL, Request, SwarmId
from shiftboss.protocol.handoff_requests import Landing, Review, Revision, Strategy
from shiftboss.protocol.handoffs import (
    CRITERIA_MAX,
    Criterion,
    PathPattern,
    PathPatterns,
    VerificationPolicy,
)
from shiftboss.protocol.policy import RepoName, Seconds, ShortText, Trait

TASKS_MAX = 2000
WORKERS_MAX = 200

AgentName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]{0,39}$")]
VariableName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,99}$")]
Value = Annotated[str, StringConstraints(max_length=10_000, pattern=NO_NUL)]


class Budget(Request):
    """The most that may be spent, in tokens and in dollars. None means no limit."""

    tokens: Annotated[int, Field(ge=1)] | None = None
    dollars: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None


class PlanRepo(Request):
    """`path` is relative to the folder of the plan.

    `setup` are commands that prepare a new work tree; they run without a shell. Agents and commands
    see the variables of `environment` and `ports`; each work tree gets its own number for a port.
    `copy` names untracked files, such as `.env`, that each work tree gets a copy of.
    """

    path: ShortText | None = None
    branch: Revision | None = None
    setup: Annotated[list[ShortText], Field(max_length=20)] = Field(default=[])
    setup_timeout: Seconds = 600
    environment: dict[VariableName, Value] = Field(default={})
    ports: Annotated[list[VariableName], Field(max_length=20)] = Field(default=[])
    copy_files: Annotated[list[ShortText], Field(max_length=50, alias="copy")] = Field(default=[])
    verification: VerificationPolicy = Field(default=VerificationPolicy())
    # How work lands in this repo. Default: as the plan says.
    landing: Landing | None = None


class PlanAgent(Request):
    """How an agent is started. `kind` names the agent. For the kind `command`, `command` is the
    whole command line; for the others it is the program that gets their arguments."""

    kind: AgentName
    command: Annotated[list[ShortText], Field(max_length=100)] = Field(default=[])
    arguments: Annotated[list[ShortText], Field(max_length=100)] = Field(default=[])
    model: ShortText | None = None
    environment: dict[VariableName, Value] = Field(default={})
    # The context size of the model, if the output of the agent does not report it.
    context_tokens: Annotated[int, Field(ge=1000)] | None = None
    # Dollars per million tokens, if the output of the agent does not report the cost.
    input_price: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    output_price: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None


class PlanHeldOut(Request):
    """Tests that the agent does not see. `files` maps their paths in the checkout to files, which
    are relative to the folder of the plan. `criterion` runs them; without it, the criteria of the
    task that run tests do."""

    files: Annotated[dict[PathPattern, ShortText], Field(min_length=1, max_length=100)]
    criterion: Criterion | None = None


class PlanTask(Request):
    """`repo` may be left out if the plan has only one. Without `criteria` they are generated from
    the title and the description, as for any handoff. A task with an empty list of `files_owned`
    only reads: it changes nothing, and its result is what its agent says."""

    id: TaskId
    title: Title
    description: Text = ""
    repo: RepoName | None = None
    depends_on: Annotated[list[TaskId], Field(max_length=200)] = Field(default=[])
    files_owned: PathPatterns
    files_readonly: PathPatterns | None = None
    criteria: Annotated[list[Criterion], Field(max_length=CRITERIA_MAX)] = Field(default=[])
    # Tests of the base whose expectations the task changes, besides those of the repo.
    expectations_change: PathPatterns = Field(default=[])
    held_out: PlanHeldOut | None = None
    complexity: Literal["low", "normal", "high"] = "normal"
    traits: Annotated[list[Trait], Field(max_length=4)] = Field(default=[])
    strategy: Strategy | None = None
    agent: AgentName | None = None
    model: ShortText | None = None
    budget: Budget = Field(default=Budget())
    timeout: Seconds = 1800
    priority: Priority = 0
    # Default: as the plan says.
    review: Review | None = None


class Plan(Request):
    """`swarm` names the run. Running the same plan again continues the same swarm.

    `landing` says how accepted work reaches its target: with its commits (`merge`), or as one
    commit per task (`squash`). With `review: required` a person approves each task first.
    """

    goal: Title
    swarm: SwarmId | None = None
    repos: Annotated[dict[RepoName, PlanRepo], Field(min_length=1)]
    agents: dict[AgentName, PlanAgent] = Field(default={})
    agent: AgentName = DEFAULT_AGENT
    workers: Annotated[int, Field(ge=1, le=WORKERS_MAX)] = 4
    auto_merge: bool = True
    landing: Landing = "merge"
    review: Review = "none"
    attempts: Annotated[int, Field(ge=1, le=20)] = 3
    budget: Budget = Field(default=Budget())
    tasks: Annotated[list[PlanTask], Field(min_length=1, max_length=TASKS_MAX)]
