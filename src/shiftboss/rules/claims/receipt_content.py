"""Builds the receipt of an accepted claim, before it is signed."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from pydantic import JsonValue

from shiftboss.protocol.receipts import RECEIPT_FORMAT, DiffSummary, ReceiptBody, ReceiptCheck
from shiftboss.protocol.verdicts import CheckResult, Verdict, VerificationJob


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
    summary: str,
    strategy: str | None,
    claimed_at: str,
    verified_at: str,
    accepted_at: str,
    server_version: str,
) -> ReceiptBody:
    """The part of the receipt that is signed."""
    assert verdict.accepted
    assert verdict.commit is not None
    assert verdict.tree is not None
    return ReceiptBody(
        format=RECEIPT_FORMAT,
        receipt_id=receipt_id,
        swarm_id=job.swarm_id,
        bead_id=job.bead_id,
        epoch=job.epoch,
        worker=worker,
        claimed_by=claimed_by,
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
        checks=_checks(verdict.checks),
        waivers=job.waivers,
        ci=_ci(job, verdict),
        claimed_at=claimed_at,
        verified_at=verified_at,
        accepted_at=accepted_at,
        server_version=server_version,
    )


def _checks(checks: Sequence[CheckResult]) -> list[ReceiptCheck]:
    return [
        ReceiptCheck(
            check=check.check,
            subject=check.subject,
            outcome=check.outcome,
            exit_code=check.exit_code,
            duration_ms=check.duration_ms,
            output_sha256=_output_hash(check.output_tail),
        )
        for check in checks
    ]


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
