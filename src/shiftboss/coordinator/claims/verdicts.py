"""Use cases of verdicts: accept or refuse a claim, or postpone its verification."""

from __future__ import annotations

import json
from collections.abc import Callable

from shiftboss import __version__
from shiftboss.coordinator.bus import questions
from shiftboss.coordinator.bus.task_endings import finish_task, held_task
from shiftboss.coordinator.claims import claim_passes
from shiftboss.coordinator.claims.claims import (
    REJECTIONS_MAX,
    claimed_by,
    event_data,
    is_of_holder,
    job_of,
)
from shiftboss.coordinator.contract.attempts import store_checkpoint
from shiftboss.coordinator.contract.cascade import record_verified_state
from shiftboss.coordinator.contract.locks import release_accepted
from shiftboss.coordinator.contract.recovery import after_refusal
from shiftboss.coordinator.handoffs.strategy_records import record_signal
from shiftboss.coordinator.runs import landings, reviews
from shiftboss.coordinator.swarms import packets
from shiftboss.errors import InvalidRequest
from shiftboss.protocol.claims.receipts import ReceiptBody, SignedReceipt
from shiftboss.protocol.claims.verdicts import CheckResult, Verdict, VerificationJob, Violation
from shiftboss.protocol.events import EventKind
from shiftboss.protocol.fields import wire_time
from shiftboss.protocol.handoffs import WorkerHandoff
from shiftboss.protocol.states import WorkerState
from shiftboss.rules.claims.claims import (
    REFUSALS_MAX,
    TRIES_MAX,
    VIOLATIONS_TOLD_MAX,
    Claim,
)
from shiftboss.rules.claims.receipt_content import receipt_body, receipt_id_of
from shiftboss.rules.claims.rejections import is_rejected
from shiftboss.rules.claims.verdicts import proves_held_out_tests
from shiftboss.rules.handoffs.escalations import refusal_question
from shiftboss.rules.handoffs.handoffs import Handoff
from shiftboss.rules.tasks.leases import lease_end_ms
from shiftboss.rules.tasks.packets import Assignment
from shiftboss.store.handoffs.port import ReceiptRow
from shiftboss.store.monitoring.measures import Measure
from shiftboss.store.port import Transaction

Sign = Callable[[ReceiptBody], SignedReceipt]
# Doubled after every failed verification.
FIRST_RETRY_MS = 2_000
_SAME_VERSION = "use a verifier of the same version as the server"


def settle(
    tx: Transaction,
    key: tuple[str, str, int],
    verifier: str,
    verdict: Verdict,
    sign: Sign,
    now_ms: int,
) -> str:
    """The new state of the claim: accepted or refused; waiting if another verifier has to look;
    void if its attempt has ended."""
    taken = _taken_claim(tx, key, verifier, now_ms)
    if taken is None:
        return "void"
    claim, held, handoff = taken
    _check_verdict(verdict, handoff)
    _check_not_rejected(tx, verdict, handoff)
    if not verdict.accepted and verdict.missing is not None:
        return _pass_on(tx, taken, verifier, verdict.missing, verdict, now_ms)
    record_verified_state(tx, claim, handoff, verdict, now_ms)
    _measure(tx, claim, verdict, now_ms)
    if verdict.accepted:
        _accept(tx, claim, held, handoff, verdict, sign, now_ms)
        return "accepted"
    _refuse(tx, claim, held, handoff, verdict, now_ms)
    return "refused"


def _measure(tx: Transaction, claim: Claim, verdict: Verdict, now_ms: int) -> None:
    result = "accepted" if verdict.accepted else "refused"
    began_at_ms = claim.asked_at_ms if claim.taken_at_ms is None else claim.taken_at_ms
    task = (claim.swarm_id, claim.task_id)
    tx.measure(Measure.VERIFICATION, (now_ms - began_at_ms) / 1000, result, task)


def _check_verdict(verdict: Verdict, handoff: Handoff) -> None:
    """Refuse a verdict on something else, and one that accepts less than the contract demands."""
    if verdict.base_commit != handoff.base_commit:
        raise InvalidRequest(
            f"verdict: the base of {handoff.task_id} is {handoff.base_commit}", field="verdict"
        )
    if verdict.accepted and handoff.held_out is not None and not proves_held_out_tests(verdict):
        raise InvalidRequest(
            f"verdict: {handoff.task_id} has held-out tests, and the verdict does not say that "
            "they pass",
            field="verdict",
            hint=_SAME_VERSION,
        )


def _check_not_rejected(tx: Transaction, verdict: Verdict, handoff: Handoff) -> None:
    if not verdict.accepted:
        return
    task = (handoff.swarm_id, handoff.task_id)
    contract = WorkerHandoff.model_validate_json(handoff.body).contract
    rejections = tx.rejections(*task, REJECTIONS_MAX)
    if is_rejected(verdict, contract, rejections, tx.waivers(*task)):
        raise InvalidRequest(
            f"verdict: it accepts work of {handoff.task_id} that the operator has rejected",
            field="verdict",
            hint=_SAME_VERSION,
        )


def pass_on(
    tx: Transaction, key: tuple[str, str, int], verifier: str, reason: str, now_ms: int
) -> str:
    """The verifier cannot look at the claim, which says nothing about the work: another one should.
    When no verifier is left, the claim waits for a person."""
    taken = _taken_claim(tx, key, verifier, now_ms)
    return "void" if taken is None else _pass_on(tx, taken, verifier, reason, None, now_ms)


def _pass_on(
    tx: Transaction,
    taken: tuple[Claim, Assignment, Handoff],
    verifier: str,
    reason: str,
    verdict: Verdict | None,
    now_ms: int,
) -> str:
    claim, held, handoff = taken
    refusal = claim_passes.leave_to_others(tx, claim, verifier, reason, verdict, now_ms)
    if refusal is None:
        return "waiting"
    _refuse(tx, claim, held, handoff, refusal, now_ms)
    return "refused"


def release(tx: Transaction, key: tuple[str, str, int], verifier: str, now_ms: int) -> str:
    """The verifier stops before it has a verdict."""
    taken = _taken_claim(tx, key, verifier, now_ms)
    if taken is None:
        return "void"
    claim_passes.release(tx, taken[0], verifier, now_ms)
    return "waiting"


def give_up(tx: Transaction, seen: Claim, now_ms: int) -> None:
    """No verifier verifies the claim: tell a person, or refuse it if a verifier has said why."""
    if tx.take_swarm(seen.swarm_id) is None:
        return
    claim = tx.claim(seen.swarm_id, seen.task_id, seen.claim_id)
    held = tx.assignment(seen.swarm_id, seen.task_id)
    handoff = tx.handoff(seen.swarm_id, seen.task_id, seen.contract_version)
    if claim != seen or held is None or handoff is None or held.claim_id != claim.claim_id:
        return
    refusal = claim_passes.give_up(tx, claim, now_ms)
    if refusal is not None:
        _refuse(tx, claim, held, handoff, refusal, now_ms)


def put_off(
    tx: Transaction, key: tuple[str, str, int], verifier: str, failure: str, now_ms: int
) -> str:
    """The evidence could not be read. Try again later; after the last try the claim is refused,
    because it is not proven."""
    taken = _taken_claim(tx, key, verifier, now_ms)
    if taken is None:
        return "void"
    claim, held, handoff = taken
    if claim.tries + 1 < TRIES_MAX:
        again_at_ms = now_ms + FIRST_RETRY_MS * 2**claim.tries
        tx.put_claim(
            claim._replace(
                state="waiting",
                taken_by=None,
                taken_until_ms=again_at_ms,
                taken_at_ms=None,
                tries=claim.tries + 1,
            )
        )
        return "waiting"
    _refuse(
        tx, claim, held, handoff, _unverifiable_verdict(job_of(tx, claim, handoff), failure), now_ms
    )
    return "refused"


def _unverifiable_verdict(job: VerificationJob, failure: str) -> Verdict:
    return Verdict(
        accepted=False,
        base_commit=job.base_commit,
        commit=None,
        tree=None,
        checks=[CheckResult(check="commit", outcome="unverifiable", message=failure)],
        violations=[
            Violation(
                check="commit",
                message=f"The evidence could not be read: {failure}",
                hint="make sure that the server can read the repository, then claim again",
            )
        ],
    )


def _taken_claim(
    tx: Transaction, key: tuple[str, str, int], verifier: str, now_ms: int
) -> tuple[Claim, Assignment, Handoff] | None:
    """The claim that this verifier has taken, with its attempt and its contract."""
    swarm_id, task_id, claim_id = key
    if tx.take_swarm(swarm_id) is None:
        return None
    claim = tx.claim(swarm_id, task_id, claim_id)
    if claim is None or claim.state != "taken" or claim.taken_by != verifier:
        return None
    held = tx.assignment(swarm_id, task_id)
    handoff = tx.handoff(swarm_id, task_id, claim.contract_version)
    if held is None or handoff is None or held.claim_id != claim_id or held.epoch != claim.epoch:
        tx.put_claim(claim._replace(state="void", taken_until_ms=None, ended_at_ms=now_ms))
        return None
    return claim, held, handoff


def _accept(
    tx: Transaction,
    claim: Claim,
    held: Assignment,
    handoff: Handoff,
    verdict: Verdict,
    sign: Sign,
    now_ms: int,
) -> None:
    content = json.loads(claim.words)
    body = _receipt_of(tx, claim, handoff, verdict, now_ms)
    _end_claim(tx, claim, "accepted", verdict, now_ms)
    receipt = _receipt_row(handoff, sign(body), now_ms)
    tx.add_receipt(receipt)
    tx.measure(Measure.VERDICTS, 1, "accepted")
    landings.add_landing(tx, receipt)
    tx.add_event(
        claim.swarm_id,
        EventKind.CLAIM_ACCEPTED,
        now_ms,
        {**event_data(claim), "receipt_id": body.receipt_id, "commit": verdict.commit},
        task_id=claim.task_id,
    )
    if handoff.review == "required":
        reviews.request_review(tx, receipt, now_ms)
    retries = _finish_work(tx, claim, held, handoff, now_ms)
    if not handoff.lands_later:
        release_accepted(tx, claim.swarm_id, claim.task_id, now_ms)
    tx.drop_tracking(claim.swarm_id, claim.task_id)
    tx.drop_contract_attempt(claim.swarm_id, claim.task_id)
    record_signal(
        tx,
        handoff,
        held,
        "completion",
        now_ms,
        verdict=verdict,
        retries=retries,
        number=claim.claim_id,
        cost=content.get("cost"),
    )


def _receipt_of(
    tx: Transaction, claim: Claim, handoff: Handoff, verdict: Verdict, now_ms: int
) -> ReceiptBody:
    content = json.loads(claim.words)
    # The clock may have been set back, but a receipt must not be accepted before its claim.
    accepted_at = wire_time(max(now_ms, claim.asked_at_ms))
    return receipt_body(
        job_of(tx, claim, handoff),
        verdict,
        receipt_id=receipt_id_of(claim.swarm_id, claim.task_id, claim.claim_id, claim.asked_at_ms),
        worker=claim.worker,
        claimed_by=claimed_by(claim),
        actor=content.get("actor"),
        summary=content["summary"],
        strategy=handoff.strategy,
        claimed_at=wire_time(claim.asked_at_ms),
        verified_at=accepted_at,
        accepted_at=accepted_at,
        server_version=__version__,
    )


def _finish_work(
    tx: Transaction, claim: Claim, held: Assignment, handoff: Handoff, now_ms: int
) -> int:
    """Ends the packet or the task of an accepted claim. Returns how often it had failed."""
    released = held._replace(claim_id=None)
    if handoff.repo_name is not None:
        done = released._replace(state=WorkerState.COMPLETE)
        store_checkpoint(tx, done, handoff, "milestone_transition", now_ms)
    if held.packet_id is not None:
        packets.finish_claimed(tx, released, json.loads(claim.words)["packet"], now_ms)
        tx.release(claim.swarm_id, claim.task_id)
        return 0
    task = held_task(tx, held)
    finish_task(tx, task, released, now_ms, in_review=handoff.review == "required")
    return task.failures


def _receipt_row(handoff: Handoff, signed: SignedReceipt, now_ms: int) -> ReceiptRow:
    return ReceiptRow(
        receipt_id=signed.receipt.receipt_id,
        swarm_id=handoff.swarm_id,
        task_id=handoff.task_id,
        title=WorkerHandoff.model_validate_json(handoff.body).context.your_role,
        body=signed.model_dump_json(),
        accepted_at_ms=now_ms,
        repo_id=handoff.repo_id,
        commit_sha=signed.receipt.commit,
        planned=handoff.planned,
    )


def _refuse(
    tx: Transaction,
    claim: Claim,
    held: Assignment,
    handoff: Handoff,
    verdict: Verdict,
    now_ms: int,
) -> None:
    """The attempt continues with a new lease. After three refusals in a row the contact is asked; a
    claim without a name does not count."""
    _end_claim(tx, claim, "refused", verdict, now_ms)
    counts = is_of_holder(claim)
    after = held._replace(
        state=WorkerState.EXECUTING,
        claim_id=None,
        refusals=held.refusals + counts,
        updated_at_ms=now_ms,
        lease_expires_at_ms=lease_end_ms(held, WorkerState.EXECUTING, now_ms),
    )
    after = after_refusal(tx, after, handoff, verdict, now_ms)
    tx.save_assignment(after)
    violations = verdict.violations[:VIOLATIONS_TOLD_MAX]
    tx.measure(Measure.VERDICTS, 1, "refused")
    for check in sorted({violation.check for violation in verdict.violations}):
        tx.measure(Measure.FAILED_CHECKS, 1, check)
    escalated = counts and after.refusals >= REFUSALS_MAX and held.packet_id is None
    tx.add_event(
        claim.swarm_id,
        EventKind.CLAIM_REFUSED,
        now_ms,
        {
            **event_data(claim),
            "refusals": after.refusals,
            "escalated": escalated,
            "state": after.state.value,
            "violations": [violation.model_dump(exclude_none=True) for violation in violations],
        },
        task_id=claim.task_id,
    )
    record_signal(
        tx,
        handoff,
        after,
        "refusal",
        now_ms,
        verdict=verdict,
        number=claim.claim_id,
        cost=json.loads(claim.words).get("cost"),
    )
    if escalated:
        _escalate(tx, after, handoff, verdict, now_ms)


def _escalate(
    tx: Transaction, held: Assignment, handoff: Handoff, verdict: Verdict, now_ms: int
) -> None:
    contact = WorkerHandoff.model_validate_json(handoff.body).escalation.blocked_contact
    violations = [violation.message for violation in verdict.violations]
    question = refusal_question(held.worker, held.refusals, held.task_id, violations)
    questions.ask(tx, held._replace(refusals=0), contact, question, now_ms)


def _end_claim(tx: Transaction, claim: Claim, state: str, verdict: Verdict, now_ms: int) -> None:
    tx.put_claim(
        claim._replace(
            state=state,
            taken_until_ms=None,
            verdict=verdict.model_dump_json(exclude_none=True),
            ended_at_ms=now_ms,
        )
    )
