"""What the verifier is asked, and what it finds, check by check."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from shiftboss.protocol.ci import CiDemand, CiRun
from shiftboss.protocol.fields import Answer
from shiftboss.protocol.handoffs import Contract, VerificationPolicy

Outcome = Literal["passed", "failed", "unverifiable", "waived"]
# The checks of a verdict, in the order in which they are made.
CheckName = Literal[
    "commit",  # the claimed commit is one, in full, and is there
    "ancestry",  # it descends from the base and is not the base
    "branch",  # it is on the branch of the task, also when all is over
    "scope",  # the change leaves neither files_owned nor touches files_readonly
    "tests_kept",  # tests of the base were neither removed nor switched off
    "ci",  # one for each job that CI has to say something about
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
    # The target at spawn, and commits of the repository that have a receipt: what they hold was
    # looked at before.
    target_base: str | None = None
    accounted_commits: list[str] = Field(default=[])
    # What CI has to say about the commit, where the repo has one.
    ci: CiDemand | None = None


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
    """`changes` are the first thousand; `files_changed` counts all.

    `target_commit` is the target as it was when the work was compared with it, `merged_from_target`
    the newest thousand of the commits between base and commit that it has: not the worker's own.
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
