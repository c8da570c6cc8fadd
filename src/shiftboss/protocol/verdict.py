"""What the verifier is asked, and what it finds, check by check."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from shiftboss.protocol.fields import Answer
from shiftboss.protocol.handoff import Contract, VerificationPolicy

Outcome = Literal["passed", "failed", "unverifiable", "waived"]
# The checks of a verdict, in the order in which they are made.
CheckName = Literal[
    "commit",  # the claimed commit is one, in full, and is there
    "ancestry",  # it descends from the base and is not the base
    "branch",  # it is on the branch of the task, also when all is over
    "scope",  # the change leaves neither files_owned nor touches files_readonly
    "tests_kept",  # tests of the base were neither removed nor switched off
    "setup",  # the commands that prepare the checkout
    "criterion",  # one for each success criterion
]


class Waiver(Answer):
    """The operator lets one failed check pass. `subject` is a path, a criterion, or "*"."""

    check: str
    subject: str
    reason: str
    granted_by: str


class VerificationJob(Answer):
    """One claim to verify. `commit` None: the tip of the branch."""

    swarm_id: str
    bead_id: str
    epoch: int
    claim_id: int
    repo: str
    base_commit: str
    branch: str | None
    target: str | None  # where the work will land; what comes from there is not the worker's
    commit: str | None
    files_touched: list[str]
    contract: Contract
    contract_version: int
    contract_hash: str
    policy: VerificationPolicy
    waivers: list[Waiver] = Field(default=[])


class Violation(Answer):
    """One reason to refuse, and what to do about it."""

    check: CheckName
    message: str
    hint: str
    path: str | None = None
    commit: str | None = None


class CheckResult(Answer):
    """`subject` is the criterion or command; the evidence of a command is its exit code, the end of
    its output and its duration."""

    check: CheckName
    outcome: Outcome
    message: str
    subject: str | None = None
    exit_code: int | None = None
    output_tail: str | None = None
    duration_ms: int = 0


class Change(Answer):
    """One path of the diff from base to commit. `status`: A, M, D, R, T (type or mode)."""

    path: str
    status: str
    old_path: str | None = None
    mode: str | None = None


class Verdict(Answer):
    """`changes` are the first thousand; `files_changed` counts all."""

    accepted: bool
    base_commit: str
    commit: str | None
    tree: str | None
    checks: list[CheckResult]
    violations: list[Violation]
    changes: list[Change] = Field(default=[])
    files_changed: int = 0
    lines_added: int = 0
    lines_deleted: int = 0
    merged_from_target: list[str] = Field(default=[])
    duration_ms: int = 0
