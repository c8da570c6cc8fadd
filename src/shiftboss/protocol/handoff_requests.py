"""What is said about handoffs: spawn, claim, scope, waivers, receipts, strategies."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, StringConstraints

from shiftboss.protocol.bus import BusRequest, Epoch, TaskId, Text, Title, WorkerName
from shiftboss.protocol.fields import INTEGER_MAX, NO_NUL, Answer, Commit
from shiftboss.protocol.handoffs import (
    CRITERIA_MAX,
    DEFAULT_CONTACT,
    Criterion,
    PathPatterns,
    Prose,
    VerificationPolicy,
)
from shiftboss.protocol.policy import Trait
from shiftboss.protocol.verdicts import CheckName, VerificationJob

# How long a completion waits for its verdict; most tools give up after a minute.
WAIT_MS_DEFAULT = 50_000
WAIT_MS_MAX = 600_000

RepoPath = Annotated[str, StringConstraints(min_length=1, max_length=4096, pattern=NO_NUL)]
# Git's own limits are checked where git is asked; this keeps options and control characters out.
Revision = Annotated[
    str, StringConstraints(max_length=250, pattern=r"^[^\x00-\x20-][^\x00-\x20]*$")
]
Strategy = Annotated[str, StringConstraints(pattern=r"^[a-z0-9-]{1,50}$")]
Reason = Annotated[str, StringConstraints(min_length=1, max_length=5000, pattern=NO_NUL)]
Version = Annotated[int, Field(ge=1, le=INTEGER_MAX)]
Operator = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=NO_NUL)]


def _whole(value: object) -> object:
    return int(value) if isinstance(value, float) and value.is_integer() else value


WaitMs = Annotated[int, BeforeValidator(_whole), Field(ge=0, le=INTEGER_MAX)]


class SpawnSubtaskRequest(BusRequest):
    """`success_criteria` and `files_readonly` take the place of the generated ones. Without `repo`
    it is the server's own; without `base` its HEAD; without `branch` the one that is checked out.
    `merges` is the accepted task whose work this one brings in: its lock on the repo passes over.
    """

    bead_id: TaskId
    files: Annotated[PathPatterns, Field(min_length=1)]
    subtask_title: Title | None = None
    subtask_description: Text = ""
    dependencies_completed: Annotated[list[TaskId], Field(max_length=200)] = Field(default=[])
    epic_id: TaskId | None = None
    epic_summary: Prose = ""
    repo: RepoPath | None = None
    base: Revision | None = None
    branch: Revision | None = None
    target: Revision | None = None
    strategy: Strategy | None = None
    success_criteria: Annotated[list[Criterion], Field(max_length=CRITERIA_MAX)] = Field(default=[])
    files_readonly: PathPatterns | None = None
    blocked_contact: Annotated[
        str, StringConstraints(min_length=1, max_length=200, pattern=NO_NUL)
    ] = DEFAULT_CONTACT
    policy: VerificationPolicy = Field(default=VerificationPolicy())
    # What the task is like: which model should do it depends on that.
    traits: list[Trait] = Field(default=[], max_length=4)
    merges: TaskId | None = None
    # Hand it out at once, as submit_task does.
    submit: bool = False


class SpawnAnswer(Answer):
    """`prompt` is for the worker: the handoff with a few lines around it. `model` is the one that
    the worker should be, by the policy."""

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
    """Without `commit` the tip of the task's branch is meant."""

    bead_id: TaskId
    files_touched: Annotated[list[str], Field(max_length=10_000)] = Field(default=[])
    summary: Text = ""
    commit: Commit | None = None
    name: WorkerName | None = None
    epoch: Epoch | None = None
    contract_version: Version | None = None
    # What it cost in dollars, as a launcher knows it; kept for the record of its strategy.
    cost: Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)] | None = None
    wait_ms: WaitMs = WAIT_MS_DEFAULT


class CompletionAnswer(Answer):
    """`status` is accepted, or verifying: then call again with the same words."""

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
    """`last_claim` is the newest claim with its verdict."""

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


class RequestScopeRequest(BusRequest):
    bead_id: TaskId
    paths: Annotated[PathPatterns, Field(min_length=1, max_length=200)]
    reason: Reason
    name: WorkerName | None = None
    epoch: Epoch | None = None


class ScopeView(Answer):
    """`status` is granted, open, refused, or over: the attempt ended before anybody decided.
    `holders` says who owns what was asked for."""

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
    """The operator's."""

    request_id: Annotated[int, Field(ge=1, le=INTEGER_MAX)]
    granted: bool
    decision: Annotated[str, StringConstraints(max_length=5000, pattern=NO_NUL)] = ""


class WaiveRequest(BusRequest):
    """The operator's: one check of one task need not pass. `subject` is a path or a criterion."""

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
    """Who owns what in a repo; with `files`, only who is in their way."""

    repo: RepoPath | None = None
    files: PathPatterns = Field(default=[])


class OwnershipAnswer(Answer):
    repo: str
    holders: list[dict[str, Any]]


class PlanRequest(BusRequest):
    """Which strategy to cut a goal with. The same `seed` gives the same choice."""

    goal: Text = ""
    seed: Annotated[int, Field(ge=0, le=INTEGER_MAX)] | None = None


class PlanAnswer(Answer):
    """`lessons` are the newest violations and failures of the strategy that was chosen."""

    strategy: str
    reason: str
    strategies: list[dict[str, Any]]
    lessons: list[dict[str, Any]]


class ReceiptRequest(BusRequest):
    bead_id: TaskId


class ReceiptAnswer(Answer):
    """The signed receipt, and the public key that checks it."""

    signed_receipt: dict[str, Any]
    public_key: str


class ListReceiptsRequest(BusRequest):
    """`after` is the `next_after` of another page."""

    after: Annotated[str, StringConstraints(max_length=200, pattern=NO_NUL)] = ""
    limit: Annotated[int, Field(ge=1, le=500)] = 100


class ReceiptLine(Answer):
    receipt_id: str
    swarm_id: str
    bead_id: str
    title: str
    commit: str
    accepted_at: int


class ReceiptList(Answer):
    """`public_key` checks them, and those that are still to come."""

    receipts: list[ReceiptLine]
    next_after: str | None
    public_key: str


class TakeClaimRequest(BusRequest):
    """A verifier asks for work, and waits for it."""

    verifier: WorkerName
    wait_ms: WaitMs = 30_000


class TakeClaimAnswer(Answer):
    job: VerificationJob | None


class RenewClaimRequest(BusRequest):
    verifier: WorkerName
    bead_id: TaskId
    claim_id: Version


class RenewClaimAnswer(Answer):
    """Not `held`: the attempt is over or another verifier has it; stop."""

    held: bool


class VerdictRequest(BusRequest):
    """What a verifier found; `failure` when it could not look."""

    verifier: WorkerName
    bead_id: TaskId
    claim_id: Version
    verdict: dict[str, Any] | None = None
    failure: Annotated[str, StringConstraints(max_length=5000, pattern=NO_NUL)] | None = None


class VerdictAnswer(Answer):
    recorded: bool
    state: Literal["accepted", "refused", "waiting", "void"]
