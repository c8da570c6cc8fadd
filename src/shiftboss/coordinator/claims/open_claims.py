"""Views of the claims without a verdict: which verifier has each, since when, or why it waits."""

from __future__ import annotations

from shiftboss.coordinator.claims.claim_passes import living_verifiers
from shiftboss.protocol.claims.claim_requests import (
    ClaimList,
    ClaimPassView,
    ListClaimsRequest,
    OpenClaimView,
    VerifierView,
)
from shiftboss.rules.claims.claim_passes import waiting_for
from shiftboss.rules.claims.claims import Claim, ClaimPass
from shiftboss.store.port import Transaction


def listing(tx: Transaction, request: ListClaimsRequest, now_ms: int) -> ClaimList:
    living = living_verifiers(tx, now_ms)
    swarm_id = "" if request.all_swarms else request.swarm_id
    claims = tx.open_claims(swarm_id, request.limit)
    return ClaimList(
        claims=[_view(tx, claim, living, now_ms) for claim in claims],
        verifiers=[VerifierView(name=name, seen_at=at_ms) for name, at_ms in living.items()],
    )


def _view(tx: Transaction, claim: Claim, living: dict[str, int], now_ms: int) -> OpenClaimView:
    handoff = tx.handoff(claim.swarm_id, claim.task_id, claim.contract_version)
    assert handoff is not None, "a claim names a version that is there"
    passes = tx.claim_passes(claim)
    return OpenClaimView(
        swarm_id=claim.swarm_id,
        bead_id=claim.task_id,
        claim_id=claim.claim_id,
        worker=claim.worker,
        state=claim.state,
        repo=handoff.repo,
        asked_at=claim.asked_at_ms,
        verifier=claim.taken_by,
        taken_at=claim.taken_at_ms,
        tries=claim.tries,
        escalated_at=claim.escalated_at_ms,
        why=waiting_for(claim, living, passes, now_ms),
        passes=[pass_view(each) for each in passes],
    )


def pass_view(claim_pass: ClaimPass) -> ClaimPassView:
    return ClaimPassView(
        verifier=claim_pass.verifier,
        reason=claim_pass.reason,
        times=claim_pass.times,
        passed_at=claim_pass.passed_at_ms,
        again_at=claim_pass.again_at_ms,
    )
