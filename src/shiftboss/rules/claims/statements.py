"""Receipts and landings as in-toto statements, and the bytes that an envelope of them signs."""

from __future__ import annotations

from typing import Any

from shiftboss.errors import InvalidReceipt
from shiftboss.protocol.claims.attestations import (
    LANDING_FORMAT,
    LANDING_PREDICATE,
    PAYLOAD_TYPE,
    RECEIPT_PREDICATES,
    STATEMENT_TYPE,
    InTotoStatement,
    LandingBody,
)
from shiftboss.protocol.claims.receipts import (
    ReceiptBody,
    ReceiptBodyV1,
    ReceiptBodyV2,
    ReceiptBodyV3,
)
from shiftboss.protocol.handoffs import canonical_json

StatementBody = ReceiptBody | LandingBody
_BODIES: dict[str, type[ReceiptBody | LandingBody]] = {
    RECEIPT_PREDICATES["shiftboss-receipt/1"]: ReceiptBodyV1,
    RECEIPT_PREDICATES["shiftboss-receipt/2"]: ReceiptBodyV2,
    RECEIPT_PREDICATES["shiftboss-receipt/3"]: ReceiptBodyV3,
    LANDING_PREDICATE: LandingBody,
}


def landing_of(receipt: ReceiptBody, target: str, landed_as: str) -> LandingBody:
    """Says as which commit the work of a receipt has landed."""
    return LandingBody(
        format=LANDING_FORMAT,
        swarm_id=receipt.swarm_id,
        bead_id=receipt.bead_id,
        receipt_id=receipt.receipt_id,
        repo=receipt.repo,
        commit=receipt.commit,
        target=target,
        landed_as=landed_as,
    )


def statement_of(body: StatementBody) -> InTotoStatement:
    return InTotoStatement.model_validate(
        {
            "_type": STATEMENT_TYPE,
            "subject": _subjects(body),
            "predicateType": _predicate_type(body),
            "predicate": body.model_dump(mode="json"),
        }
    )


def _subjects(body: StatementBody) -> list[dict[str, Any]]:
    """The commit, and for a receipt its tree: after a rebase or a squash that changed nothing else,
    tools can still find the files by it. The names of subjects must differ."""
    if isinstance(body, LandingBody):
        return [{"name": body.repo, "digest": {"gitCommit": body.landed_as}}]
    return [
        {"name": body.repo, "digest": {"gitCommit": body.commit}},
        {"name": f"{body.repo}#tree", "digest": {"gitTree": body.tree}},
    ]


def _predicate_type(body: StatementBody) -> str:
    return LANDING_PREDICATE if isinstance(body, LandingBody) else RECEIPT_PREDICATES[body.format]


def body_of(statement: InTotoStatement) -> StatementBody:
    """What the statement says. Raises InvalidReceipt if it is of another type, or if its subject is
    not what its predicate is about."""
    model = _BODIES.get(statement.predicate_type)
    if model is None:
        raise InvalidReceipt(
            f"The predicate type is {statement.predicate_type}, not one of {', '.join(_BODIES)}",
            field="predicateType",
            hint="it may come from a newer Shiftboss, or from another tool",
        )
    body = model.model_validate(statement.predicate)
    if statement_of(body) != statement:
        raise InvalidReceipt(
            "The subject of the statement is not what its predicate is about", field="subject"
        )
    return body


def signed_encoding(payload: bytes, payload_type: str = PAYLOAD_TYPE) -> bytes:
    """The pre-authentication encoding of DSSE. It starts differently from every receipt, so that a
    signature of one cannot serve as a signature of the other."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def payload_of(body: StatementBody) -> bytes:
    return canonical_json(statement_of(body))
