"""Receipts in the form that other tools read: in-toto statements in DSSE envelopes.

The formats are those of https://github.com/in-toto/attestation (Statement v1) and
https://github.com/secure-systems-lab/dsse. Like receipts, they are input when they are verified.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import ConfigDict, Field, JsonValue, StringConstraints

from shiftboss.protocol.claims.receipts import (
    RECEIPT_FORMAT,
    RECEIPT_FORMAT_1,
    RECEIPT_FORMAT_2,
    ObjectName,
)
from shiftboss.protocol.fields import Request

PAYLOAD_TYPE: Final = "application/vnd.in-toto+json"
STATEMENT_TYPE: Final = "https://in-toto.io/Statement/v1"
# The predicate of a receipt is its body, in the format that its type names.
RECEIPT_PREDICATES: Final = {
    RECEIPT_FORMAT_1: "https://shiftboss.dev/receipt/v1",
    RECEIPT_FORMAT_2: "https://shiftboss.dev/receipt/v2",
    RECEIPT_FORMAT: "https://shiftboss.dev/receipt/v3",
}
LANDING_PREDICATE: Final = "https://shiftboss.dev/landing/v1"
LANDING_FORMAT: Final = "shiftboss-landing/1"

NonEmpty = Annotated[str, StringConstraints(min_length=1)]


class LandingBody(Request):
    """The server's word that a squash on the target contains accepted work, which is in no history
    any more. `commit` and `receipt_id` are those of the receipt; `landed_as` is the squash: of that
    commit, or of a merge task that has merged it. It has no time, so that a repetition gives the
    same bytes."""

    format: Literal["shiftboss-landing/1"]
    swarm_id: str
    bead_id: str
    receipt_id: str
    repo: str
    commit: ObjectName
    target: str
    landed_as: ObjectName


class Subject(Request):
    """What a statement is about. `digest` has one entry: gitCommit or gitTree."""

    name: NonEmpty
    digest: Annotated[dict[str, ObjectName], Field(min_length=1)]


class InTotoStatement(Request):
    """`predicate` is a receipt's body or a `LandingBody`, as `predicateType` says."""

    model_config = ConfigDict(serialize_by_alias=True)

    type_: Literal["https://in-toto.io/Statement/v1"] = Field(alias="_type")
    subject: Annotated[list[Subject], Field(min_length=1)]
    predicate_type: str = Field(alias="predicateType")
    predicate: dict[str, JsonValue]


class EnvelopeSignature(Request):
    """`keyid` is the `key_id` of receipts. `sig` is base64. Other people may add signatures, with
    key ids of any form."""

    keyid: str
    sig: str


class Envelope(Request):
    """`payload` is base64. The signature covers the pre-authentication encoding of the payload and
    its type."""

    model_config = ConfigDict(serialize_by_alias=True)

    payload: str
    payload_type: str = Field(alias="payloadType")
    signatures: Annotated[list[EnvelopeSignature], Field(min_length=1, max_length=20)]
