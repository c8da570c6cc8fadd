"""Use case of the verdict: what becomes of a claim that was looked at."""

from __future__ import annotations

import json
from collections.abc import Callable

from shiftboss import __version__
from shiftboss.coordinator.bus import questions
from shiftboss.coordinator.bus.task_endings import finish_task, held_task
from shiftboss.coordinator.claims.claims import about, claimed_by, is_of_holder, job_of
from shiftboss.coordinator.contract.cascade import seen_by_verifier
from shiftboss.coordinator.contract.locks import release_proven
from shiftboss.coordinator.contract.recovery import after_refusal
from shiftboss.coordinator.handoffs.strategy_records import learn
from shiftboss.coordinator.runs import landings
from shiftboss.coordinator.swarms import packets
from shiftboss.errors import InvalidRequest
from shiftboss.protocol.events import EventKind
from shiftboss.protocol.fields import wire_time
from shiftboss.protocol.handoffs import WorkerHandoff
from shiftboss.protocol.receipts import ReceiptBody, SignedReceipt
from shiftboss.protocol.states import WorkerState
from shiftboss.protocol.verdicts import CheckResult, Verdict, VerificationJob, Violation
from shiftboss.rules.claims.handoffs import (
    REFUSALS_MAX,
    TRIES_MAX,
    VIOLATIONS_TOLD_MAX,
    Claim,
    Handoff,
)
from shiftboss.rules.claims.receipts import receipt_body, receipt_id_of
from shiftboss.rules.tasks.leases import lease_end_ms
from shiftboss.rules.tasks.packets import Assignment
from shiftboss.store.handoff_port import ReceiptRow
from shiftboss.store.port import Transaction

Sign = Callable[[ReceiptBody], SignedReceipt]
# Doubled after every try at evidence that could not be looked at.
AGAIN_AFTER_MS = 2_000


def settle(
    tx: Transaction,
    key: tuple[str, str, int],
    verifier: str,
    verdict: Verdict,
    sign: Sign,
    now_ms: int,
) -> str:
    """What the claim has become: accepted or refused; void when nobody waits for it any more."""
    found = _held(tx, key, verifier, now_ms)
    if found is None:
        return "void"
    claim, held, handoff = found
    if verdict.base_commit != handoff.base_commit:
        raise InvalidRequest(
            f"verdict: {handoff.base_commit} is the base of {claim.task_id}", field="verdict"
        )
    seen_by_verifier(tx, claim, handoff, verdict, now_ms)
    if verdict.accepted:
        _accept(tx, claim, held, handoff, verdict, sign, now_ms)
        return "accepted"
    _refuse(tx, claim, held, handoff, verdict, now_ms)
    return "refused"


def put_off(
    tx: Transaction, key: tuple[str, str, int], verifier: str, failure: str, now_ms: int
) -> str:
    """The evidence could not be looked at. Tried again; in the end the claim is refused, for what
    nobody could see is not proven."""
    found = _held(tx, key, verifier, now_ms)
    if found is None:
        return "void"
    claim, held, handoff = found
    if claim.tries + 1 < TRIES_MAX:
        again_at_ms = now_ms + AGAIN_AFTER_MS * 2**claim.tries
        tx.put_claim(
            claim._replace(
                state="waiting", taken_by=None, taken_until_ms=again_at_ms, tries=claim.tries + 1
            )
        )
        return "waiting"
    _refuse(tx, claim, held, handoff, _not_seen(job_of(tx, claim, handoff), failure), now_ms)
    return "refused"


def _not_seen(job: VerificationJob, failure: str) -> Verdict:
    return Verdict(
        accepted=False,
        base_commit=job.base_commit,
        commit=None,
        tree=None,
        checks=[CheckResult(check="commit", outcome="unverifiable", message=failure)],
        violations=[
            Violation(
                check="commit",
                message=f"The evidence could not be looked at: {failure}",
                hint="see that the server can read the repository, then claim again",
            )
        ],
    )


def _held(
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
    words = json.loads(claim.words)
    # A clock that was set back must not make the receipt contradict itself.
    accepted_at = wire_time(max(now_ms, claim.asked_at_ms))
    body = receipt_body(
        job_of(tx, claim, handoff),
        verdict,
        receipt_id=receipt_id_of(claim.swarm_id, claim.task_id, claim.claim_id, claim.asked_at_ms),
        worker=claim.worker,
        claimed_by=claimed_by(claim),
        summary=words["summary"],
        strategy=handoff.strategy,
        claimed_at=wire_time(claim.asked_at_ms),
        verified_at=accepted_at,
        accepted_at=accepted_at,
        server_version=__version__,
    )
    _end(tx, claim, "accepted", verdict, now_ms)
    receipt = _receipt_row(handoff, sign(body), now_ms)
    tx.add_receipt(receipt)
    landings.accepted(tx, receipt)
    tx.add_event(
        claim.swarm_id,
        EventKind.CLAIM_ACCEPTED,
        now_ms,
        {**about(claim), "receipt_id": body.receipt_id, "commit": verdict.commit},
        task_id=claim.task_id,
    )
    free = held._replace(claim_id=None)
    if held.packet_id is not None:
        packets.finish_claimed(tx, free, words["packet"], now_ms)
        tx.release(claim.swarm_id, claim.task_id)
        retries = 0
    else:
        task = held_task(tx, held)
        retries = task.failures
        finish_task(tx, task, free, now_ms)
    if not handoff.lands_later:
        release_proven(tx, claim.swarm_id, claim.task_id, now_ms)
    tx.drop_tracking(claim.swarm_id, claim.task_id)
    tx.drop_contract_attempt(claim.swarm_id, claim.task_id)
    learn(
        tx,
        handoff,
        held,
        "completion",
        now_ms,
        verdict=verdict,
        retries=retries,
        number=claim.claim_id,
        cost=words.get("cost"),
    )


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
    )


def _refuse(
    tx: Transaction,
    claim: Claim,
    held: Assignment,
    handoff: Handoff,
    verdict: Verdict,
    now_ms: int,
) -> None:
    """The attempt stays open, with its lease. After three in a row the contact is asked; a claim of
    which nobody knows whose it was is not the holder's fault."""
    _end(tx, claim, "refused", verdict, now_ms)
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
    told = verdict.violations[:VIOLATIONS_TOLD_MAX]
    escalated = counts and after.refusals >= REFUSALS_MAX and held.packet_id is None
    tx.add_event(
        claim.swarm_id,
        EventKind.CLAIM_REFUSED,
        now_ms,
        {
            **about(claim),
            "refusals": after.refusals,
            "escalated": escalated,
            "violations": [one.model_dump(exclude_none=True) for one in told],
        },
        task_id=claim.task_id,
    )
    learn(
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
    named = "\n".join(f"- {one.message}" for one in verdict.violations[:10])
    questions.ask(
        tx,
        held._replace(refusals=0),
        contact,
        f"{held.worker} was refused {held.refusals} times in a row on {held.task_id}:\n{named}\n"
        "Answer with what it should do, change its contract, or take the task back.",
        now_ms,
    )


def _end(tx: Transaction, claim: Claim, state: str, verdict: Verdict, now_ms: int) -> None:
    tx.put_claim(
        claim._replace(
            state=state,
            taken_until_ms=None,
            verdict=verdict.model_dump_json(exclude_none=True),
            ended_at_ms=now_ms,
        )
    )
