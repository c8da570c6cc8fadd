"""Requests and responses about handoffs: spawn, claim, scope, waivers, receipts, strategies."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from shiftboss.protocol.bus import (
    BusRequest,
    DisputeKind,
    DisputeReason,
    Epoch,
    Evidence,
    TaskId,
    Text,
    Title,
    WorkerName,
)
from shiftboss.protocol.claims.verdicts import CheckName
from shiftboss.protocol.fields import INTEGER_MAX, NO_NUL, Answer, Commit, Milliseconds
from shiftboss.protocol.handoffs import (
    CRITERIA_MAX,
    DEFAULT_CONTACT,
    Criterion,
    HeldOutTests,
    PathPatterns,
    Prose,
    VerificationPolicy,
)
from shiftboss.protocol.policy import Trait

# How long a completion waits for its verdict. Most tools time out after a minute.
WAIT_MS_DEFAULT = 50_000
WAIT_MS_MAX = 600_000

RepoPath = Annotated[str, StringConstraints(min_length=1, max_length=4096, pattern=NO_NUL)]
# Keeps options, exclusions and control characters out. Git itself checks the rest.
Revision = Annotated[
    str, StringConstraints(max_length=250, pattern=r"^[^\x00-\x20\x7f^-][^\x00-\x20\x7f]*$")
]
# As git names branches: nothing that is an expression after `refs/heads/`, such as `main@{1}`.
BranchName = Annotated[
    str,
    StringConstraints(
        max_length=250,
        pattern=r"^[^\x00-\x20\x7f~^:?*\[\\{.-](?:\.?[^\x00-\x20\x7f~^:?*\[\\{.])*$",
    ),
]
Strategy = Annotated[str, StringConstraints(pattern=r"^[a-z0-9-]{1,50}$")]
Reason = Annotated[str, StringConstraints(min_length=1, max_length=5000, pattern=NO_NUL)]
Version = Annotated[int, Field(ge=1, le=INTEGER_MAX)]
Operator = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=NO_NUL)]


Landing = Literal["merge", "squash"]
Review = Literal["none", "required"]


class SpawnSubtaskRequest(BusRequest):
    """Without any `files` the task only reads. `success_criteria` and `files_readonly` replace the
    generated ones.

    Defaults: `repo` is the server's repository, `base` its HEAD, `branch` the one that is checked
    out. `merges` names the accepted task whose work this task merges; this task takes over its lock
    on the repo. `landing` says how accepted work reaches its target: as it is, or squashed into one
    commit. With `review: required` it lands only when the operator has approved it. `held_out` are
    tests that the worker does not see; only the operator may give them.
    """

    bead_id: TaskId
    files: PathPatterns
    subtask_title: Title | None = None
    subtask_description: Text = ""
    dependencies_completed: Annotated[list[TaskId], Field(max_length=200)] = Field(default=[])
    epic_id: TaskId | None = None
    epic_summary: Prose = ""
    repo: RepoPath | None = None
    base: Revision | None = None
    branch: BranchName | None = None
    target: BranchName | None = None
    strategy: Strategy | None = None
    success_criteria: Annotated[list[Criterion], Field(max_length=CRITERIA_MAX)] = Field(default=[])
    files_readonly: PathPatterns | None = None
    blocked_contact: Annotated[
        str, StringConstraints(min_length=1, max_length=200, pattern=NO_NUL)
    ] = DEFAULT_CONTACT
    policy: VerificationPolicy = Field(default=VerificationPolicy())
    # Traits of the task, from which the policy chooses a model.
    traits: list[Trait] = Field(default=[], max_length=4)
    merges: TaskId | None = None
    landing: Landing = "merge"
    review: Review = "none"
    held_out: HeldOutTests | None = Field(default=None, repr=False)
    # Submit the task at once, as submit_task does.
    submit: bool = False


class SpawnAnswer(Answer):
    """`prompt` is for the worker: the handoff with a short introduction. `model` is the model that
    the policy chose for the worker."""

    bead_id: str
    status: str
    contract_version: int
    contract_hash: str
    repo: str
    base_commit: str
    branch: str | None
    handoff: dict[str, Any]
    prompt: str
    model: str | None = None


class SwarmCompleteRequest(BusRequest):
    """Without `commit` it is the tip of the task's branch."""

    bead_id: TaskId
    files_touched: Annotated[list[str], Field(max_length=10_000)] = Field(default=[])
    summary: Text = ""
    commit: Commit | None = None
    name: WorkerName | None = None
    epoch: Epoch | None = None
    contract_version: Version | None = None
    # Cost in dollars, if the launcher knows it; recorded for the strategy.
    cost: Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)] | None = None
    wait_ms: Milliseconds = WAIT_MS_DEFAULT


class CompletionAnswer(Answer):
    """`status` is accepted or verifying. If it is verifying, repeat the same call."""

    success: bool
    bead_id: str
    status: str
    claim_id: int
    commit: str | None = None
    receipt_id: str | None = None
    checks: list[dict[str, Any]] | None = None
    hint: str | None = None


class ShowHandoffRequest(BusRequest):
    bead_id: TaskId
    version: Version | None = None


class HandoffView(Answer):
    """`last_claim` is the newest claim with its verdict. `held_out` is the SHA-256 of the held-out
    tests, if there are any."""

    bead_id: str
    version: int
    hash: str
    handoff: dict[str, Any]
    repo: str
    base_commit: str
    branch: str | None
    target: str | None
    policy: dict[str, Any]
    strategy: str | None
    reason: str
    created_at: int
    prompt: str
    waivers: list[dict[str, Any]]
    last_claim: dict[str, Any] | None
    landing: str
    review: str
    held_out: str | None = None


class RequestScopeRequest(BusRequest):
    bead_id: TaskId
    paths: Annotated[PathPatterns, Field(min_length=1, max_length=200)]
    reason: Reason
    name: WorkerName | None = None
    epoch: Epoch | None = None


class ScopeView(Answer):
    """`status` is granted, open, refused, or over (the attempt ended without a decision).
    `holders` lists the owners of the requested paths."""

    request_id: int
    bead_id: str
    worker: str
    epoch: int
    paths: list[str]
    reason: str
    status: str
    asked_at: int
    decided_at: int | None
    decision: str | None
    contract_version: int | None = None
    holders: list[dict[str, Any]] = Field(default=[])


class ListScopeRequestsRequest(BusRequest):
    only_open: bool = True


class ScopeList(Answer):
    requests: list[ScopeView]


class DecideScopeRequest(BusRequest):
    """For the operator only."""

    request_id: Annotated[int, Field(ge=1, le=INTEGER_MAX)]
    granted: bool
    decision: Annotated[str, StringConstraints(max_length=5000, pattern=NO_NUL)] = ""


class DisputeContractRequest(BusRequest):
    """A worker says that its contract is `wrong`, or `impossible` to meet. `commit` is one that
    shows it."""

    bead_id: TaskId
    kind: DisputeKind
    reason: DisputeReason
    evidence: Evidence = ""
    commit: Commit | None = None
    name: WorkerName | None = None
    epoch: Epoch | None = None


class DisputeView(Answer):
    """A dispute waits for the answer to its question. `status` is the state of the attempt."""

    question_id: int
    bead_id: str
    worker: str
    epoch: int
    status: str
    kind: str
    reason: str
    evidence: str
    commit: str | None
    contact: str
    contract_version: int
    asked_at: int


class AmendHandoffRequest(BusRequest):
    """For the operator only: a new version of the contract in force. What is given replaces that
    part of it. With `version`, only that version is amended."""

    bead_id: TaskId
    files: PathPatterns | None = None
    files_readonly: PathPatterns | None = None
    success_criteria: (
        Annotated[list[Criterion], Field(min_length=1, max_length=CRITERIA_MAX)] | None
    ) = None
    expectations_change: PathPatterns | None = None
    reason: Reason
    version: Version | None = None


class WaiveRequest(BusRequest):
    """For the operator only: a check of a task may fail. `subject` is a path or a criterion."""

    bead_id: TaskId
    check: CheckName
    subject: Annotated[str, StringConstraints(min_length=1, max_length=2000, pattern=NO_NUL)] = "*"
    reason: Reason
    granted_by: Operator = "operator"


class WaiveAnswer(Answer):
    success: bool
    bead_id: str
    check: str
    subject: str


class OwnershipRequest(BusRequest):
    """Lists the owners of files in a repo; with `files`, only the owners of overlapping files."""

    repo: RepoPath | None = None
    files: PathPatterns = Field(default=[])


class OwnershipAnswer(Answer):
    repo: str
    holders: list[dict[str, Any]]


class PlanRequest(BusRequest):
    """Asks for a strategy to split a goal into tasks. The same `seed` gives the same choice."""

    goal: Text = ""
    seed: Annotated[int, Field(ge=0, le=INTEGER_MAX)] | None = None


class PlanAnswer(Answer):
    """`lessons` are the newest violations and failures of the chosen strategy."""

    strategy: str
    reason: str
    strategies: list[dict[str, Any]]
    lessons: list[dict[str, Any]]
