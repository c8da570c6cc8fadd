"""Requests and answers about claims, their verdicts and receipts."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from shiftboss.protocol.bus import (
    BusRequest,
    TaskId,
    WorkerName,
)
from shiftboss.protocol.claims.receipts import ObjectName
from shiftboss.protocol.claims.verdicts import VerificationJob
from shiftboss.protocol.deployment.keys import KeyView
from shiftboss.protocol.fields import NO_NUL, Answer, Milliseconds
from shiftboss.protocol.handoff_requests import Version


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
    """For the operator only: what kept verifiers from verifying a claim is fixed."""

    bead_id: TaskId


class RetryClaimAnswer(Answer):
    """`verifiers` are those that are there to look at it."""

    bead_id: str
    claim_id: int
    state: str
    verifiers: list[str]
