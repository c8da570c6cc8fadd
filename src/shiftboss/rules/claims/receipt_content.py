"""Builds the receipt of an accepted claim, before it is signed.

A receipt says how its checks were tested: which sandbox contained them, which tests ran, and
whether these notice sabotage and mutants. It never says what held-out tests are.
"""

from __future__ import annotations

import hashlib
from typing import Final

from pydantic import JsonValue

from shiftboss.protocol.claims.receipts import (
    LISTED_MAX,
    RECEIPT_FORMAT,
    DiffSummary,
    ReceiptBodyV3,
    ReceiptCanaries,
    ReceiptCanary,
    ReceiptCheck,
    ReceiptMutant,
    ReceiptMutants,
    ReceiptTests,
)
from shiftboss.protocol.claims.verdicts import (
    Canary,
    CheckResult,
    TestTotals,
    Verdict,
    VerificationJob,
)
from shiftboss.protocol.handoffs import held_out_hash
from shiftboss.rules.claims.held_out import UNSABOTAGED
from shiftboss.rules.claims.verdicts import totals

# Of the names of tests and changes, which come from the work, and of messages, which quote them.
NAME_CHARACTERS_MAX: Final = 300


def receipt_id_of(swarm_id: str, task_id: str, claim_id: int, claimed_at_ms: int) -> str:
    """A deterministic id, so that a repeated claim gets the same receipt."""
    claim = "\0".join((swarm_id, task_id, str(claim_id), str(claimed_at_ms)))
    return f"rcpt-{hashlib.sha256(claim.encode()).hexdigest()[:24]}"


def receipt_body(
    job: VerificationJob,
    verdict: Verdict,
    *,
    receipt_id: str,
    worker: str,
    claimed_by: str | None,
    actor: str | None,
    summary: str,
    strategy: str | None,
    claimed_at: str,
    verified_at: str,
    accepted_at: str,
    server_version: str,
) -> ReceiptBodyV3:
    """The part of the receipt that is signed."""
    assert verdict.accepted
    assert verdict.commit is not None
    assert verdict.tree is not None
    return ReceiptBodyV3(
        format=RECEIPT_FORMAT,
        receipt_id=receipt_id,
        swarm_id=job.swarm_id,
        bead_id=job.bead_id,
        epoch=job.epoch,
        worker=worker,
        claimed_by=claimed_by,
        actor=actor,
        summary=summary,
        strategy=strategy,
        contract_version=job.contract_version,
        contract_hash=job.contract_hash,
        contract=job.contract,
        repo=job.repo,
        branch=job.branch,
        base_commit=verdict.base_commit,
        commit=verdict.commit,
        tree=verdict.tree,
        diff=DiffSummary(
            files_changed=verdict.files_changed,
            lines_added=verdict.lines_added,
            lines_deleted=verdict.lines_deleted,
            changes=verdict.changes,
            target_commit=verdict.target_commit,
            merged_from_target=verdict.merged_from_target,
        ),
        checks=[_check(job, check) for check in verdict.checks],
        waivers=job.waivers,
        ci=_ci(job, verdict),
        claimed_at=claimed_at,
        verified_at=verified_at,
        accepted_at=accepted_at,
        server_version=server_version,
        policy=job.policy.model_dump(mode="json"),
    )


def _check(job: VerificationJob, check: CheckResult) -> ReceiptCheck:
    if check.check == "held_out":
        return _held_out_check(job, check)
    return ReceiptCheck(
        check=check.check,
        subject=check.subject,
        outcome=check.outcome,
        exit_code=check.exit_code,
        duration_ms=check.duration_ms,
        output_sha256=_output_hash(check.output_tail),
        message=_clipped(check.message) or None,
        sandbox=check.sandbox,
        tests=_tests(check.tests),
        canaries=_canaries(check.canaries),
        mutants=_mutants(check),
        held_out_sha256=None,
    )


def _held_out_check(job: VerificationJob, check: CheckResult) -> ReceiptCheck:
    """Only how many there were and how they ended: a receipt is public, and the tests may be used
    again. Their own criterion names their files."""
    is_public = check.subject in job.contract.success_criteria
    return ReceiptCheck(
        check=check.check,
        subject=check.subject if is_public else None,
        outcome=check.outcome,
        exit_code=check.exit_code,
        duration_ms=check.duration_ms,
        output_sha256=None,
        # A text of our own, whatever else the message says.
        message=UNSABOTAGED if check.message.endswith(UNSABOTAGED) else None,
        sandbox=check.sandbox,
        tests=_tests(check.tests),
        canaries=None,
        mutants=None,
        held_out_sha256=None if job.held_out is None else held_out_hash(job.held_out),
    )


def _tests(totals: TestTotals | None) -> ReceiptTests | None:
    if totals is None:
        return None
    return ReceiptTests(
        source=totals.source, ran=totals.ran, passed=totals.passed, skipped=totals.skipped
    )


def _canaries(canaries: list[Canary]) -> ReceiptCanaries | None:
    if not canaries:
        return None
    return ReceiptCanaries(
        total=len(canaries),
        failed=sum(canary.outcome == "failed" for canary in canaries),
        listed=[
            ReceiptCanary(
                test=_clipped(canary.test), change=_clipped(canary.change), outcome=canary.outcome
            )
            for canary in canaries[:LISTED_MAX]
        ],
    )


def _mutants(check: CheckResult) -> ReceiptMutants | None:
    """Those that survived come first: they show what the tests do not check."""
    if not check.mutants:
        return None
    counted = check.mutant_totals or totals(check.mutants)
    survivors_first = sorted(check.mutants, key=lambda mutant: mutant.killed_by is not None)
    return ReceiptMutants(
        total=counted.tried,
        killed=counted.killed,
        listed=[
            ReceiptMutant(
                path=mutant.path,
                line=mutant.line,
                change=_clipped(mutant.change),
                killed_by=None if mutant.killed_by is None else _clipped(mutant.killed_by),
            )
            for mutant in survivors_first[:LISTED_MAX]
        ],
    )


def _clipped(name: str) -> str:
    return name if len(name) <= NAME_CHARACTERS_MAX else f"{name[: NAME_CHARACTERS_MAX - 3]}..."


def _ci(job: VerificationJob, verdict: Verdict) -> dict[str, JsonValue] | None:
    """The CI runs and jobs that were checked, if the repo has CI."""
    if job.ci is None:
        return None
    return {
        "repo": job.ci.repo,
        "provider": job.ci.policy.provider,
        "runs": [run.model_dump(mode="json", exclude_none=True) for run in verdict.ci_runs],
    }


def _output_hash(tail: str | None) -> str | None:
    return None if tail is None else hashlib.sha256(tail.encode()).hexdigest()
