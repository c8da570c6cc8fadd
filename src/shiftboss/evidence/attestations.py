"""Reading DSSE envelopes and the git notes that hold them, and verifying them without the server.

A note is a bundle as in-toto defines it: one envelope per line. The note of an accepted commit has
its receipt. The note of a squash has the server's word that it is the squash of an accepted commit,
and the receipt of that commit.
"""

from __future__ import annotations

import base64
import binascii
from typing import Final, NamedTuple

from pydantic import ValidationError

from shiftboss.errors import InvalidReceipt
from shiftboss.evidence.receipt_verification import (
    check_facts,
    parse_exactly,
    public_keys,
    unknown_key,
    verify_signature,
)
from shiftboss.protocol.claims.attestations import (
    PAYLOAD_TYPE,
    Envelope,
    InTotoStatement,
    LandingBody,
)
from shiftboss.protocol.claims.receipts import ReceiptBody
from shiftboss.rules.claims.statements import StatementBody, body_of, signed_encoding

# A note may contain any number of foreign lines.
NOTE_LINES_MAX: Final = 1000


class NotedReceipt(NamedTuple):
    """A receipt in the note of a commit. `landing` is set if that commit is a squash of the
    accepted one. `key_id` is the key that signed the envelope."""

    receipt: ReceiptBody
    landing: LandingBody | None
    key_id: str


def is_envelope(text: bytes) -> bool:
    """Whether this is meant to be an envelope, and not a receipt."""
    return b'"payloadType"' in text and b'"signatures"' in text


def read_envelope(text: bytes) -> Envelope:
    """Raises InvalidReceipt for duplicate and unknown members, and for another type of payload."""
    envelope = parse_exactly(Envelope, text, "a DSSE envelope")
    if envelope.payload_type != PAYLOAD_TYPE:
        raise InvalidReceipt(
            f"The type of the payload is {envelope.payload_type}, not {PAYLOAD_TYPE}",
            field="payloadType",
            hint="only envelopes of in-toto statements can be verified",
        )
    return envelope


def verify_envelope(envelope: Envelope, public_pem: str) -> StatementBody:
    """The statement that the key, one of `public_pem`, has signed. Raises InvalidReceipt unless a
    key has signed it, and it does not contradict itself. Signatures of other keys do not matter."""
    keys = public_keys(public_pem)
    signatures = [each for each in envelope.signatures if each.keyid in keys]
    if not signatures:
        named = ", ".join(each.keyid for each in envelope.signatures)
        raise unknown_key(f"The envelope names the key {named}", keys, "keyid")
    payload = _payload(envelope)
    for each in signatures:
        content = signed_encoding(payload, envelope.payload_type)
        verify_signature(keys[each.keyid], each.sig, content)
    body = _body(payload)
    if not isinstance(body, LandingBody):
        check_facts(body)
    return body


def signer_of(envelope: Envelope, public_pem: str) -> str:
    """The id of the first of the keys that the envelope names."""
    keys = public_keys(public_pem)
    return next(each.keyid for each in envelope.signatures if each.keyid in keys)


def verify_note(note: bytes, commit: str, public_pem: str) -> list[NotedReceipt]:
    """The receipts that the note of a commit proves. Raises InvalidReceipt if there are none, or if
    one that names the key is not genuine. Other people may write lines into the note, and servers
    with other keys do."""
    receipts: dict[str, ReceiptBody] = {}
    signers: dict[str, str] = {}
    landings: list[LandingBody] = []
    for envelope in _envelopes(note, public_pem):
        body = verify_envelope(envelope, public_pem)
        if isinstance(body, LandingBody):
            # Several servers may have said the same.
            landings += [body] if body not in landings else []
        else:
            receipts[body.receipt_id] = body
            signers[body.receipt_id] = signer_of(envelope, public_pem)
    proven = [
        NotedReceipt(body, None, signers[body.receipt_id])
        for body in receipts.values()
        if body.commit == commit
    ]
    for landing in landings:
        receipt = receipts.get(landing.receipt_id)
        if landing.landed_as != commit or receipt is None or receipt.commit != landing.commit:
            continue
        proven.append(NotedReceipt(receipt, landing, signers[receipt.receipt_id]))
    if not proven:
        raise _about_others(commit, [*receipts.values(), *landings])
    return proven


def _envelopes(note: bytes, public_pem: str) -> list[Envelope]:
    keys = public_keys(public_pem)
    lines = note.splitlines()
    if len(lines) > NOTE_LINES_MAX:
        raise InvalidReceipt(f"The note has more than {NOTE_LINES_MAX} lines")
    named = [
        envelope
        for envelope in map(_envelope_in, lines)
        if envelope and any(signature.keyid in keys for signature in envelope.signatures)
    ]
    if not named:
        raise InvalidReceipt(
            f"The note has no envelope that names the key {' or '.join(keys)}",
            field="keyid",
            hint="give the public key of the server that signed the receipt",
        )
    return named


def _envelope_in(line: bytes) -> Envelope | None:
    """None: it is a foreign line."""
    try:
        return read_envelope(line) if is_envelope(line) else None
    except InvalidReceipt:
        return None


def _about_others(commit: str, bodies: list[StatementBody]) -> InvalidReceipt:
    subjects = {body.landed_as if isinstance(body, LandingBody) else body.commit for body in bodies}
    return InvalidReceipt(
        f"The note is not about the commit {commit}, but about {', '.join(sorted(subjects))}",
        field="subject",
    )


def _payload(envelope: Envelope) -> bytes:
    try:
        return base64.b64decode(envelope.payload, validate=True)
    except (ValueError, binascii.Error):
        raise InvalidReceipt("The payload is not base64", field="payload") from None


def _body(payload: bytes) -> StatementBody:
    statement = parse_exactly(InTotoStatement, payload, "an in-toto statement")
    try:
        return body_of(statement)
    except ValidationError as exc:
        first = exc.errors(include_url=False, include_input=False)[0]
        field = ".".join(("predicate", *map(str, first["loc"])))
        raise InvalidReceipt(
            f"This is not an in-toto statement of Shiftboss: {field}: {first['msg']}", field=field
        ) from exc
