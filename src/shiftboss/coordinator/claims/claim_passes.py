"""Use cases of claims that verifiers pass on: to another verifier, or in the end to a person."""

from __future__ import annotations

from shiftboss.coordinator.claims.claims import event_data
from shiftboss.coordinator.swarms.swarms import check_exists
from shiftboss.errors import IllegalTransition
from shiftboss.protocol.claims.claim_requests import RetryClaimAnswer, RetryClaimRequest
from shiftboss.protocol.claims.verdicts import Verdict
from shiftboss.protocol.events import EventKind
from shiftboss.rules.claims.claim_passes import ALIVE_MS, is_given_up, next_pass, obstacle
from shiftboss.rules.claims.claims import Claim, ClaimPass
from shiftboss.store.port import Transaction

# No deployment runs more; a list of them stays short.
VERIFIERS_MAX = 200
# A verifier that was not seen for this long is deleted.
FORGET_AFTER_MS = 24 * 3600 * 1000


def living_verifiers(tx: Transaction, now_ms: int) -> dict[str, int]:
    """When each of them was last seen."""
    return tx.verifiers(now_ms - ALIVE_MS, VERIFIERS_MAX)


def note_verifier(tx: Transaction, name: str, now_ms: int) -> None:
    tx.forget_verifiers_before(now_ms - FORGET_AFTER_MS)
    tx.put_verifier(name, now_ms)


def leave_to_others(
    tx: Transaction,
    claim: Claim,
    verifier: str,
    reason: str,
    verdict: Verdict | None,
    now_ms: int,
) -> Verdict | None:
    """The verifier cannot look at the claim that it has taken. Returns the verdict that ends the
    claim, if a verifier that passed on it has given one and no other verifier can verify it."""
    earlier = tx.claim_passes(claim)
    body = None if verdict is None else verdict.model_dump_json()
    passed = next_pass(claim, earlier, verifier, reason, body, now_ms)
    tx.put_claim_pass(passed)
    waiting = claim._replace(state="waiting", taken_by=None, taken_until_ms=None, taken_at_ms=None)
    tx.put_claim(waiting)
    if passed.reason not in {each.reason for each in earlier if each.verifier == verifier}:
        _tell_passed(tx, claim, verifier, passed.reason, passed.again_at_ms, now_ms)
    return give_up(tx, waiting, now_ms)


def release(tx: Transaction, claim: Claim, verifier: str, now_ms: int) -> None:
    """The verifier stops. That says nothing about the claim: any verifier may take it at once."""
    tx.forget_verifier(verifier)
    tx.put_claim(
        claim._replace(state="waiting", taken_by=None, taken_until_ms=None, taken_at_ms=None)
    )
    _tell_passed(tx, claim, verifier, "the verifier was stopped", None, now_ms)


def _tell_passed(
    tx: Transaction,
    claim: Claim,
    verifier: str,
    reason: str,
    again_at_ms: int | None,
    now_ms: int,
) -> None:
    tx.add_event(
        claim.swarm_id,
        EventKind.CLAIM_PASSED,
        now_ms,
        {
            **event_data(claim),
            "verifier": verifier,
            "reason": reason,
            "again_at": again_at_ms,
        },
        task_id=claim.task_id,
    )


def give_up(tx: Transaction, claim: Claim, now_ms: int) -> Verdict | None:
    """If no verifier is left that can verify the claim, tell a person, once. Returns the verdict
    that ends the claim instead, if there is one."""
    passes = tx.claim_passes(claim)
    if not is_given_up(claim, living_verifiers(tx, now_ms), passes, now_ms):
        return None
    refusal = next((each.verdict for each in passes if each.verdict is not None), None)
    if refusal is not None:
        return Verdict.model_validate_json(refusal)
    if claim.escalated_at_ms is None:
        _escalate(tx, claim, passes, now_ms)
    return None


def _escalate(tx: Transaction, claim: Claim, passes: list[ClaimPass], now_ms: int) -> None:
    waiting = claim._replace(state="waiting", taken_by=None, taken_at_ms=None)
    tx.put_claim(waiting._replace(escalated_at_ms=now_ms))
    tx.add_event(
        claim.swarm_id,
        EventKind.CLAIM_ESCALATED,
        now_ms,
        {**event_data(claim), "reason": obstacle(passes)},
        task_id=claim.task_id,
    )


def retry_claim(tx: Transaction, request: RetryClaimRequest, now_ms: int) -> RetryClaimAnswer:
    """The cause is fixed: every verifier may look at the claim again at once."""
    tx.take_swarm(request.swarm_id)
    check_exists(tx, request.swarm_id)
    claim = tx.last_claim(request.swarm_id, request.bead_id)
    if claim is None or claim.state not in ("waiting", "taken"):
        raise IllegalTransition(
            f"{request.bead_id} has no claim that waits for a verifier; nothing was changed",
            field="bead_id",
            hint=f"see why: shiftboss why {request.bead_id} --swarm {request.swarm_id}",
        )
    passes = tx.drop_claim_passes(claim)
    until_ms = claim.taken_until_ms if claim.state == "taken" else None
    tx.put_claim(claim._replace(escalated_at_ms=None, taken_until_ms=until_ms))
    tx.add_event(
        claim.swarm_id,
        EventKind.CLAIM_RETRIED,
        now_ms,
        {**event_data(claim), "passes": passes},
        task_id=claim.task_id,
    )
    return RetryClaimAnswer(
        bead_id=claim.task_id,
        claim_id=claim.claim_id,
        state=claim.state,
        verifiers=sorted(living_verifiers(tx, now_ms)),
    )
