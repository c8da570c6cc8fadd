"""Verification: the job that a verifier gets, and the verdict it returns, check by check."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from shiftboss.protocol.ci import CiDemand, CiRun
from shiftboss.protocol.fields import Answer
from shiftboss.protocol.handoffs import Contract, VerificationPolicy

Outcome = Literal["passed", "failed", "unverifiable", "waived"]
# The checks of a verdict, in the order in which they run.
CheckName = Literal[
    "commit",  # the claimed commit exists and is named in full
    "ancestry",  # it descends from the base and is not the base
    "branch",  # it is on the branch of the task, also after the other checks
    "scope",  # the change stays within files_owned and does not touch files_readonly
    "tests_kept",  # no test of the base was removed or disabled
    "ci",  # one for each required CI job
    "setup",  # the commands that prepare the checkout
    "criterion",  # one for each success criterion
]


class Waiver(Answer):
    """The operator accepts a failed check. `subject` is a path, a criterion, or "*"."""

    check: str
    subject: str
    reason: str
    granted_by: str


class VerificationJob(Answer):
    """One claim to verify. Without `commit` it is the tip of the branch."""

    swarm_id: str
    bead_id: str
    epoch: int
    claim_id: int
    repo: str
    base_commit: str
    branch: str | None
    target: str | None  # where the work will land; commits from there are not the worker's
    commit: str | None
    files_touched: list[str]
    contract: Contract
    contract_version: int
    contract_hash: str
    policy: VerificationPolicy
    waivers: list[Waiver] = Field(default=[])
    # The target at spawn, and the commits of the repository that have a receipt. Their changes have
    # been verified before.
    target_base: str | None = None
    accounted_commits: list[str] = Field(default=[])
    # Set when the repo has CI.
    ci: CiDemand | None = None


class Violation(Answer):
    """One reason why a claim is refused, and what to do about it."""

    check: CheckName
    message: str
    hint: str
    path: str | None = None
    commit: str | None = None


class CheckResult(Answer):
    """`subject` is the criterion or command. The exit code, the end of the output and the duration
    are the evidence for a command."""

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
    """`changes` lists the first thousand; `files_changed` counts all of them.

    `target_commit` is the tip of the target that the work was compared with. `merged_from_target`
    lists the newest thousand commits between base and commit that came from the target, so they are
    not the worker's own.
    """

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
    target_commit: str | None = None
    merged_from_target: list[str] = Field(default=[])
    ci_runs: list[CiRun] = Field(default=[])
    duration_ms: int = 0
