"""Invariants of claims and receipts: done is proven."""

from __future__ import annotations

from collections.abc import Iterator

from shiftboss.coordinator.invariants.facts import BrokenInvariant, SwarmFacts
from shiftboss.errors import InvalidReceipt
from shiftboss.evidence.receipt_verification import read_receipt, verify_receipt
from shiftboss.protocol.states import WorkerState
from shiftboss.rules.claims.claims import Claim
from shiftboss.rules.claims.receipt_content import receipt_id_of
from shiftboss.store.handoffs.port import ReceiptRow

_OPEN = ("waiting", "taken")


def open_claims_are_held(facts: SwarmFacts) -> Iterator[BrokenInvariant]:
    """A claim that is being verified is the claim of the current attempt, and the other way
    round."""
    for claims in facts.claims.values():
        for claim in claims:
            held = facts.assignments.get(claim.task_id)
            is_current = held is not None and (held.claim_id, held.epoch) == (
                claim.claim_id,
                claim.epoch,
            )
            if (claim.state in _OPEN) != is_current:
                yield facts.broken(
                    "open_claim",
                    f"claim {claim.claim_id} of {claim.task_id}",
                    f"is {claim.state}, but {'' if is_current else 'not '}the claim of the current "
                    "attempt",
                    facts.retry_command(claim.task_id),
                )
    for held in facts.assignments.values():
        if held.claim_id is not None and held.state is not WorkerState.VERIFYING:
            yield facts.broken(
                "open_claim",
                f"attempt {held.epoch} at {held.task_id}",
                f"is {held.state.value} while claim {held.claim_id} is being verified",
            )


def claims_are_numbered(facts: SwarmFacts) -> Iterator[BrokenInvariant]:
    for task_id, claims in facts.claims.items():
        numbers = [claim.claim_id for claim in claims]
        if numbers != list(range(1, len(numbers) + 1)):
            yield facts.broken("claim_number", f"task {task_id}", f"has the claims {numbers}")


def done_has_a_receipt(facts: SwarmFacts) -> Iterator[BrokenInvariant]:
    """A task with a contract is done only by an accepted claim, which has its receipt."""
    for task in facts.tasks.values():
        if task.status != "done" or task.contract_version is None:
            continue
        claims = facts.claims.get(task.task_id, [])
        if not claims or claims[-1].state != "accepted":
            yield facts.broken(
                "proven", f"task {task.task_id}", "is done, and its last claim was not accepted"
            )


def accepted_claims_have_receipts(facts: SwarmFacts) -> Iterator[BrokenInvariant]:
    expected = {
        _receipt_id(claim): claim
        for claims in facts.claims.values()
        for claim in claims
        if claim.state == "accepted"
    }
    rows = {row.receipt_id: row for rows in facts.receipts.values() for row in rows}
    for receipt_id, claim in expected.items():
        if receipt_id not in rows:
            yield facts.broken(
                "proven",
                f"claim {claim.claim_id} of {claim.task_id}",
                f"was accepted, and its receipt {receipt_id} is missing",
            )
    for receipt_id, row in rows.items():
        # Receipts outlive their swarm. Another one of the same name may exist now.
        if receipt_id not in expected and row.accepted_at_ms >= facts.swarm.created_at_ms:
            yield facts.broken(
                "proven", f"receipt {receipt_id}", f"has no accepted claim of {row.task_id}"
            )


def _receipt_id(claim: Claim) -> str:
    return receipt_id_of(claim.swarm_id, claim.task_id, claim.claim_id, claim.asked_at_ms)


def unverified_receipt(row: ReceiptRow, public_key: str) -> BrokenInvariant | None:
    """The problem of a receipt; None if the key has signed it and the row repeats it."""
    try:
        signed = read_receipt(row.body.encode())
        verify_receipt(signed, public_key)
    except InvalidReceipt as error:
        return _invalid(row, error.detail)
    body = signed.receipt
    if (body.receipt_id, body.bead_id, body.commit) != (
        row.receipt_id,
        row.task_id,
        row.commit_sha,
    ):
        return _invalid(row, f"is signed for {body.bead_id} and the commit {body.commit}")
    return None


def _invalid(row: ReceiptRow, detail: str) -> BrokenInvariant:
    return BrokenInvariant("receipt", row.swarm_id, f"receipt {row.receipt_id}", detail)
