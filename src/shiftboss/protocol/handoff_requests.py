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
from shiftboss.protocol.claims.receipts import ObjectName
from shiftboss.protocol.claims.verdicts import CheckName, VerificationJob
from shiftboss.protocol.deployment.keys import KeyView
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


class ReceiptRequest(BusRequest):
    """`bead_id` is a task, or the id of a receipt."""

    bead_id: TaskId


class ReceiptAnswer(Answer):
    """The signed receipt, and the public key to verify it with: that of the server that signed it.
    It is empty if the store does not have it."""

    signed_receipt: dict[str, Any]
    public_key: str


class ExportReceiptRequest(BusRequest):
    """`bead_id` is a task, or the id of a receipt. `landed_as` is the squash that the work has
    landed as."""

    bead_id: TaskId
    landed_as: ObjectName | None = None


class ExportReceiptAnswer(Answer):
    """`receipt` is a DSSE envelope of an in-toto statement about `commit`. `landing` is one about
    the squash, if `landed_as` names it: the server has checked that it is the squash of the
    accepted work."""

    receipt_id: str
    commit: str
    receipt: dict[str, Any]
    landing: dict[str, Any] | None = None
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
    """`keys` are those that have signed receipts; a receipt names its own. `public_key` is the one
    that the server signs with now."""

    receipts: list[ReceiptLine]
    next_after: str | None
    public_key: str
    keys: list[KeyView]


class TakeClaimRequest(BusRequest):
    """A verifier asks for a claim and waits up to `wait_ms` for one."""

    verifier: WorkerName
    wait_ms: Milliseconds = 30_000


class TakeClaimAnswer(Answer):
    job: VerificationJob | None


class RenewClaimRequest(BusRequest):
    verifier: WorkerName
    bead_id: TaskId
    claim_id: Version


class RenewClaimAnswer(Answer):
    """If not `held`, the attempt is over or another verifier has the claim: stop."""

    held: bool


class VerdictRequest(BusRequest):
    """The verdict of a verifier, or the `failure` that kept it from reaching one. `unable` is why
    it cannot look at the claim here, which says nothing about the work: another verifier should.
    `released`: the verifier stops, and any other may take the claim."""

    verifier: WorkerName
    bead_id: TaskId
    claim_id: Version
    verdict: dict[str, Any] | None = None
    failure: Annotated[str, StringConstraints(max_length=5000, pattern=NO_NUL)] | None = None
    unable: Annotated[str, StringConstraints(max_length=5000, pattern=NO_NUL)] | None = None
    released: bool = False


class VerdictAnswer(Answer):
    recorded: bool
    state: Literal["accepted", "refused", "waiting", "void"]


class ListClaimsRequest(BusRequest):
    """The claims without a verdict, oldest first; with `all_swarms`, of every swarm."""

    all_swarms: bool = False
    limit: Annotated[int, Field(ge=1, le=500)] = 100


class ClaimPassView(Answer):
    """A verifier could not look at a claim. It looks again at `again_at`."""

    verifier: str
    reason: str
    times: int
    passed_at: int
    again_at: int


class OpenClaimView(Answer):
    """`verifier` has worked on it since `taken_at`; None while it waits. `why` is the reason why it
    waits. `escalated_at`: since then it has been waiting for a person."""

    swarm_id: str
    bead_id: str
    claim_id: int
    worker: str
    state: str
    repo: str
    asked_at: int
    verifier: str | None
    taken_at: int | None
    tries: int
    escalated_at: int | None
    why: str | None
    passes: list[ClaimPassView]


class VerifierView(Answer):
    """A verifier that asks for claims, and when it last did."""

    name: str
    seen_at: int


class ClaimList(Answer):
    claims: list[OpenClaimView]
    verifiers: list[VerifierView]


class RetryClaimRequest(BusRequest):
    """For the operator only: what kept verifiers from looking at a claim is mended."""

    bead_id: TaskId


class RetryClaimAnswer(Answer):
    """`verifiers` are those that are there to look at it."""

    bead_id: str
    claim_id: int
    state: str
    verifiers: list[str]
