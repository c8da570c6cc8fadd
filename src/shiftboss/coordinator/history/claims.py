"""Use case of the claims of a task, with the checks of each and their results."""

from __future__ import annotations

import json
from typing import Any

from shiftboss.coordinator.swarms.swarms import check_task_exists
from shiftboss.protocol.claims.verdicts import CheckResult, Verdict
from shiftboss.protocol.history import (
    CanaryView,
    CheckView,
    ListTaskClaimsRequest,
    MutantView,
    TaskClaimList,
    TaskClaimView,
)
from shiftboss.rules.claims.claims import Claim
from shiftboss.rules.claims.receipt_content import receipt_id_of
from shiftboss.store.port import Transaction


def listing(tx: Transaction, request: ListTaskClaimsRequest) -> TaskClaimList:
    check_task_exists(tx, request.swarm_id, request.bead_id)
    claims = tx.claims_of_task(request.swarm_id, request.bead_id, request.limit)
    return TaskClaimList(claims=[_view(claim) for claim in claims])


def _view(claim: Claim) -> TaskClaimView:
    report: dict[str, Any] = json.loads(claim.words)
    verdict = None if claim.verdict is None else Verdict.model_validate_json(claim.verdict)
    named: str | None = report.get("commit")
    return TaskClaimView(
        claim_id=claim.claim_id,
        epoch=claim.epoch,
        worker=claim.worker,
        state=claim.state,
        commit=named if verdict is None else verdict.commit or named,
        base_commit=None if verdict is None else verdict.base_commit,
        contract_version=claim.contract_version,
        summary=report.get("summary", ""),
        made_at=claim.asked_at_ms,
        taken_at=claim.taken_at_ms,
        decided_at=claim.ended_at_ms,
        escalated_at=claim.escalated_at_ms,
        verifier=claim.taken_by,
        tries=claim.tries,
        receipt_id=_receipt_id(claim),
        **({} if verdict is None else _judged(verdict)),
    )


def _receipt_id(claim: Claim) -> str | None:
    if claim.state != "accepted":
        return None
    return receipt_id_of(claim.swarm_id, claim.task_id, claim.claim_id, claim.asked_at_ms)


def _judged(verdict: Verdict) -> dict[str, Any]:
    checks = verdict.checks
    return {
        "checks": [_check(check) for check in checks],
        "canaries": [
            CanaryView(**canary.model_dump(), subject=check.subject)
            for check in checks
            for canary in check.canaries
        ],
        "mutants": [
            MutantView(**mutant.model_dump(), subject=check.subject)
            for check in checks
            for mutant in check.mutants
        ],
        "violations": verdict.violations,
        "files_changed": verdict.files_changed,
        "lines_added": verdict.lines_added,
        "lines_deleted": verdict.lines_deleted,
        "duration_ms": verdict.duration_ms,
    }


def _check(check: CheckResult) -> CheckView:
    return CheckView(
        name=check.check,
        result=check.outcome,
        detail=check.message,
        subject=check.subject,
        evidence=check.output_tail,
        exit_code=check.exit_code,
        duration_ms=check.duration_ms,
        sandbox=check.sandbox,
        tests=check.tests,
        mutant_totals=check.mutant_totals,
    )
