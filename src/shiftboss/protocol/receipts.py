"""Receipts: what was accepted, on which evidence, signed by the server.

A receipt is input when it is verified, so unknown members and type conversions are rejected.
No member has a default, so that exactly the members in the file are what was signed.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field, JsonValue, StringConstraints

from shiftboss.protocol.fields import Request
from shiftboss.protocol.handoffs import Contract
from shiftboss.protocol.verdicts import Change, CheckName, Outcome, Waiver

RECEIPT_FORMAT: Final = "shiftboss-receipt/1"

# Git names objects by SHA-1 or by SHA-256.
ObjectName = Annotated[str, StringConstraints(pattern=r"^(?:[0-9a-f]{40}|[0-9a-f]{64})$")]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
WireTime = Annotated[
    str, StringConstraints(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$")
]
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


class ReceiptCheck(Request):
    """A check without its output, which may contain anything. The hash identifies the output."""

    check: CheckName
    subject: str | None
    outcome: Outcome
    exit_code: int | None
    duration_ms: Count
    output_sha256: Sha256 | None


class ReceiptBody(Request):
    """The signed part. `contract_hash` is the hash of the whole handoff, which includes the
    contract. `worker` held the task; `claimed_by` is the name in the claim, if it had one."""

    format: Literal["shiftboss-receipt/1"]
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
    checks: Annotated[list[ReceiptCheck], Field(min_length=1)]
    waivers: list[Waiver]
    ci: dict[str, JsonValue] | None
    claimed_at: WireTime
    verified_at: WireTime
    accepted_at: WireTime
    server_version: str


class SignedReceipt(Request):
    """`signature` is base64. It covers the name of the format, a line feed and the canonical JSON
    of `receipt`."""

    receipt: ReceiptBody
    key_id: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{16}$")]
    algorithm: Literal["ed25519"]
    signature: str
