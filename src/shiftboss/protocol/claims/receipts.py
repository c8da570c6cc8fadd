"""Receipts: what was accepted, on which evidence, signed by the server.

A receipt is input when it is verified, so unknown members and type conversions are rejected.
No member has a default, so that exactly the members in the file are what was signed.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field, JsonValue, StringConstraints

from shiftboss.protocol.claims.verdicts import Change, CheckName, Outcome, Waiver
from shiftboss.protocol.fields import Request
from shiftboss.protocol.handoffs import Contract

# Receipts of format 1 do not say how their checks were tested, and those of format 2 do not name
# their actor. They stay valid.
RECEIPT_FORMAT_1: Final = "shiftboss-receipt/1"
RECEIPT_FORMAT_2: Final = "shiftboss-receipt/2"
RECEIPT_FORMAT: Final = "shiftboss-receipt/3"
# How many canaries and mutants of a check a receipt lists. It counts all of them.
LISTED_MAX: Final = 50

# Git names objects by SHA-1 or by SHA-256.
ObjectName = Annotated[str, StringConstraints(pattern=r"^(?:[0-9a-f]{40}|[0-9a-f]{64})$")]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
WireTime = Annotated[
    str, StringConstraints(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$")
]
KeyId = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{16}$")]
Count = Annotated[int, Field(ge=0)]


class DiffSummary(Request):
    """`changes` lists the first thousand; `files_changed` counts all of them."""

    files_changed: Count
    lines_added: Count
    lines_deleted: Count
    changes: list[Change]
    # The tip of the target branch at verification, and the newest thousand commits between base and
    # commit that came from it, which are not the worker's own.
    target_commit: ObjectName | None
    merged_from_target: list[ObjectName]


class ReceiptCheckV1(Request):
    """A check without its output, which may contain anything. The hash identifies the output."""

    check: CheckName
    subject: str | None
    outcome: Outcome
    exit_code: int | None
    duration_ms: Count
    output_sha256: Sha256 | None


class ReceiptTests(Request):
    """The tests that a runner reported; see `TestTotals`."""

    source: Literal["report", "output", "summary"]
    ran: Count
    passed: Count
    skipped: Count


class ReceiptCanary(Request):
    test: str
    change: str
    outcome: Literal["failed", "passed", "missing"]


class ReceiptCanaries(Request):
    """The tests that were sabotaged. `failed` counts those that were reported as failed."""

    total: Count
    failed: Count
    listed: Annotated[list[ReceiptCanary], Field(max_length=LISTED_MAX)]


class ReceiptMutant(Request):
    path: str
    line: Count
    change: str
    killed_by: str | None


class ReceiptMutants(Request):
    """The changes of changed lines that were tried. `killed` counts those that a test noticed."""

    total: Count
    killed: Count
    listed: Annotated[list[ReceiptMutant], Field(max_length=LISTED_MAX)]


class ReceiptCheck(ReceiptCheckV1):
    """A check, and how the check itself was tested. `message` is what it found, such as the reason
    why it is unverifiable. `sandbox` is what contained its commands. `held_out_sha256` identifies
    the tests that the worker has not seen; nothing else in a receipt tells what they are."""

    message: str | None
    sandbox: str | None
    tests: ReceiptTests | None
    canaries: ReceiptCanaries | None
    mutants: ReceiptMutants | None
    held_out_sha256: Sha256 | None


class _BodyMembers(Request):
    """`contract_hash` is the hash of the whole handoff, which includes the contract. `worker` held
    the task; `claimed_by` is the name in the claim, if it had one."""

    receipt_id: str
    swarm_id: str
    bead_id: str
    epoch: Count
    worker: str
    claimed_by: str | None
    summary: str
    strategy: str | None
    contract_version: Count
    contract_hash: Sha256
    contract: Contract
    repo: str
    branch: str | None
    base_commit: ObjectName
    commit: ObjectName
    tree: ObjectName
    diff: DiffSummary
    waivers: list[Waiver]
    ci: dict[str, JsonValue] | None
    claimed_at: WireTime
    verified_at: WireTime
    accepted_at: WireTime
    server_version: str


class ReceiptBodyV1(_BodyMembers):
    format: Literal["shiftboss-receipt/1"]
    checks: Annotated[list[ReceiptCheckV1], Field(min_length=1)]


class _TestedBody(_BodyMembers):
    """`policy` is the `VerificationPolicy` that was in force, as it was then: later versions may
    have further members."""

    checks: Annotated[list[ReceiptCheck], Field(min_length=1)]
    policy: dict[str, JsonValue]


class ReceiptBodyV2(_TestedBody):
    format: Literal["shiftboss-receipt/2"]


class ReceiptBodyV3(_TestedBody):
    """`actor` made the claim, by the name of its token; None for a claim of an older version."""

    format: Literal["shiftboss-receipt/3"]
    actor: str | None


# The signed part.
ReceiptBody = ReceiptBodyV1 | ReceiptBodyV2 | ReceiptBodyV3


class SignedReceipt(Request):
    """`signature` is base64. It covers the name of the format, a line feed and the canonical JSON
    of `receipt`."""

    receipt: Annotated[ReceiptBody, Field(discriminator="format")]
    key_id: KeyId
    algorithm: Literal["ed25519"]
    signature: str
