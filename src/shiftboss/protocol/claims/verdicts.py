"""Verification: the job that a verifier gets, and the verdict it returns, check by check."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from shiftboss.protocol.ci import CiDemand, CiRun
from shiftboss.protocol.fields import Answer
from shiftboss.protocol.handoffs import Contract, HeldOutTests, VerificationPolicy

Outcome = Literal["passed", "failed", "unverifiable", "waived"]
# The checks of a verdict, in the order in which they run.
CheckName = Literal[
    "commit",  # the claimed commit exists and is named in full
    "ancestry",  # it descends from the base and is not the base
    "branch",  # it is on the branch of the task, also after the other checks
    "review",  # the operator has not rejected it; only after a rejection
    "scope",  # the change stays within files_owned and does not touch files_readonly
    "tests_kept",  # no test of the base was removed or disabled
    "ci",  # one for each required CI job
    "setup",  # the commands that prepare the checkout
    "criterion",  # one for each success criterion
    # For each criterion that runs tests:
    "base_tests",  # the tests of the base, in their version of the base, pass as well
    "canary",  # tests that were sabotaged are reported as failed
    "mutants",  # the tests notice changes of the changed lines
    "held_out",  # tests that the worker has not seen pass
]


class Waiver(Answer):
    """The operator accepts a failed check. `subject` is a path, a criterion, or "*"."""

    check: str
    subject: str
    reason: str
    granted_by: str


class RejectedWork(Answer):
    """Accepted work that the operator has rejected. `tree` has its files."""

    commit: str
    tree: str
    reason: str
    rejected_by: str


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
    # Work of this task that the operator has rejected, the newest first.
    rejections: list[RejectedWork] = Field(default=[])
    # The target at spawn, and the commits of the repository that have a receipt. Their changes have
    # been verified before.
    target_base: str | None = None
    accounted_commits: list[str] = Field(default=[])
    # Set when the repo has CI.
    ci: CiDemand | None = None
    # Tests that the worker must not see. Only a verifier gets them.
    held_out: HeldOutTests | None = Field(default=None, repr=False)


class Violation(Answer):
    """One reason why a claim is refused, and what to do about it."""

    check: CheckName
    message: str
    hint: str
    path: str | None = None
    commit: str | None = None


class TestTotals(Answer):
    """How many tests a runner reported. `ran` counts those that passed or failed. `source`: the
    runner wrote a report file, or printed each test, or only a summary."""

    __test__ = False  # not a class of tests, whatever pytest makes of its name

    source: Literal["report", "output", "summary"]
    ran: int
    passed: int
    skipped: int = 0


class Canary(Answer):
    """A test that was sabotaged, and how: it must be reported as failed."""

    test: str
    change: str
    outcome: Literal["failed", "passed", "missing"]


class Mutant(Answer):
    """A change of a changed line. `killed_by` names the first test that failed because of it; it
    survived if that is None."""

    path: str
    line: int
    change: str
    killed_by: str | None = None


class MutantTotals(Answer):
    """How many mutants were tried, and how many of them a test noticed."""

    tried: int
    killed: int


class CheckResult(Answer):
    """`subject` is the criterion or command. The exit code, the end of the output and the duration
    are the evidence for a command; `sandbox` says what it was contained by. `mutants` lists some of
    those that `mutant_totals` counts."""

    check: CheckName
    outcome: Outcome
    message: str
    subject: str | None = None
    exit_code: int | None = None
    output_tail: str | None = None
    duration_ms: int = 0
    sandbox: str | None = None
    tests: TestTotals | None = None
    canaries: list[Canary] = Field(default=[])
    mutants: list[Mutant] = Field(default=[])
    mutant_totals: MutantTotals | None = None


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
    not the worker's own. `missing` is what this verifier lacks, such as the commit: another one may
    have it, so a refusal counts only if no other can look.
    """

    accepted: bool
    base_commit: str
    # Stored without the members that are None, so these need a default.
    commit: str | None = None
    tree: str | None = None
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
    missing: str | None = None
