"""Receipts as in-toto statements in DSSE envelopes, judged by another library than our own."""

from __future__ import annotations

import base64
import copy
import json
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from securesystemslib.dsse import Envelope as DsseEnvelope
from securesystemslib.exceptions import VerificationError
from securesystemslib.signer import SSlibKey  # type: ignore[attr-defined]

from shiftboss.errors import InvalidReceipt
from shiftboss.evidence.attestations import read_envelope, verify_envelope, verify_note
from shiftboss.evidence.keys import SigningKey, signed_bytes
from shiftboss.evidence.receipt_verification import read_receipt
from shiftboss.protocol.claims.attestations import LandingBody
from shiftboss.protocol.handoffs import canonical_json
from shiftboss.rules.claims.statements import StatementBody, landing_of
from tests.unit.claims.test_receipts import COMMIT, KEY, OTHER_KEY, TREE, body

pytestmark = pytest.mark.requirement("OWN-18")

SQUASH = "9" * 40
BODY = body()
LANDING = landing_of(BODY, "main", SQUASH)


def line(statement: StatementBody, key: SigningKey = KEY) -> bytes:
    return canonical_json(key.attest(statement))


ENVELOPE = line(BODY)


def check(text: bytes, key: SigningKey = KEY) -> StatementBody:
    return verify_envelope(read_envelope(text), key.public_pem)


def statement(text: bytes = ENVELOPE) -> dict[str, Any]:
    members: dict[str, Any] = json.loads(base64.b64decode(json.loads(text)["payload"]))
    return members


def resigned(payload: bytes, payload_type: str = "application/vnd.in-toto+json") -> bytes:
    """An envelope that the key has signed, whatever is in it."""
    envelope = DsseEnvelope(payload, payload_type, {})
    signature = KEY._private.sign(envelope.pae())
    return json.dumps(
        {
            "payload": base64.b64encode(payload).decode(),
            "payloadType": payload_type,
            "signatures": [{"keyid": KEY.key_id, "sig": base64.b64encode(signature).decode()}],
        }
    ).encode()


def verify_by_library(text: bytes, key: SigningKey = KEY) -> DsseEnvelope:
    envelope = DsseEnvelope.from_dict(json.loads(text))
    public = load_pem_public_key(key.public_pem.encode())
    envelope.verify([SSlibKey.from_crypto(public, key.key_id)], 1)
    return envelope


@pytest.mark.parametrize("signed", [BODY, LANDING], ids=["receipt", "landing"])
def test_securesystemslib_verifies_an_envelope(signed: StatementBody) -> None:
    envelope = verify_by_library(line(signed))
    assert envelope.payload_type == "application/vnd.in-toto+json"
    assert check(line(signed)) == signed
    assert json.loads(envelope.payload)["predicate"] == signed.model_dump(mode="json")


def test_securesystemslib_refuses_a_changed_envelope_and_another_key() -> None:
    changed = json.loads(ENVELOPE)
    changed["payload"] = base64.b64encode(canonical_json(statement()) + b" ").decode()
    with pytest.raises(VerificationError):
        verify_by_library(json.dumps(changed).encode())
    with pytest.raises(VerificationError):
        verify_by_library(ENVELOPE, OTHER_KEY)


def test_the_statement_names_the_commit_and_its_tree() -> None:
    members = statement()
    assert set(members) == {"_type", "subject", "predicateType", "predicate"}
    assert members["_type"] == "https://in-toto.io/Statement/v1"
    assert members["predicateType"] == "https://shiftboss.dev/receipt/v3"
    assert members["subject"] == [
        {"name": "/repo", "digest": {"gitCommit": COMMIT}},
        {"name": "/repo#tree", "digest": {"gitTree": TREE}},
    ]
    landing = statement(line(LANDING))
    assert landing["predicateType"] == "https://shiftboss.dev/landing/v1"
    assert landing["subject"] == [{"name": "/repo", "digest": {"gitCommit": SQUASH}}]
    assert landing["predicate"]["commit"] == COMMIT
    assert landing["predicate"]["receipt_id"] == "r-1"


def test_a_receipt_of_format_1_can_be_attested() -> None:
    text = (Path(__file__).parent / "receipt_format_1.json").read_bytes()
    old = read_receipt(text).receipt
    envelope = line(old)
    verify_by_library(envelope)
    assert check(envelope) == old
    assert statement(envelope)["predicateType"] == "https://shiftboss.dev/receipt/v1"


def test_envelopes_are_deterministic() -> None:
    """A repeated landing must not write a second line into a note."""
    assert line(body()) == ENVELOPE


def test_the_signature_of_a_receipt_is_not_that_of_an_envelope() -> None:
    forged = json.loads(ENVELOPE)
    forged["signatures"][0]["sig"] = KEY.sign(BODY).signature
    forged["payload"] = base64.b64encode(signed_bytes(BODY)).decode()
    with pytest.raises(InvalidReceipt, match="signature is wrong"):
        check(json.dumps(forged).encode())


def test_a_changed_payload_is_refused() -> None:
    members = statement()
    members["predicate"]["summary"] = "Something else"
    forged = json.loads(ENVELOPE) | {
        "payload": base64.b64encode(canonical_json(members)).decode(),
    }
    with pytest.raises(InvalidReceipt, match="signature is wrong"):
        check(json.dumps(forged).encode())


def test_another_key_is_refused() -> None:
    with pytest.raises(InvalidReceipt, match=f"names the key {KEY.key_id}, but this key is"):
        check(ENVELOPE, OTHER_KEY)
    renamed = json.loads(ENVELOPE)
    renamed["signatures"][0]["keyid"] = OTHER_KEY.key_id
    with pytest.raises(InvalidReceipt, match="signature is wrong"):
        check(json.dumps(renamed).encode(), OTHER_KEY)


def test_signatures_of_other_people_do_not_matter() -> None:
    signed_twice = json.loads(ENVELOPE)
    signed_twice["signatures"].insert(0, {"keyid": "somebody", "sig": "AAAA"})
    assert check(json.dumps(signed_twice).encode()) == BODY


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (b"{}", "not a DSSE envelope: payload"),
        (b"[" * 100_000, "not a DSSE envelope"),
        (b" " * (32 * 2**20 + 1), "not a DSSE envelope: it has more than"),
        (ENVELOPE.replace(b'{"payload"', b'{"payload":"","payload"'), "'payload' twice"),
        (ENVELOPE.replace(b'{"payload"', b'{"extra":"","payload"'), "not a DSSE envelope: extra"),
        (resigned(b"hello", "text/plain"), "type of the payload is text/plain"),
    ],
)
def test_malformed_envelopes_are_refused(text: bytes, complaint: str) -> None:
    with pytest.raises(InvalidReceipt, match=complaint):
        read_envelope(text)


def _changed(place: str, value: object) -> bytes:
    members = copy.deepcopy(statement())
    *parents, last = place.split(".")
    holder: Any = members
    for name in parents:
        holder = holder[int(name)] if name.isdecimal() else holder[name]
    holder[last] = value
    return resigned(canonical_json(members))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (_changed("_type", "https://in-toto.io/Statement/v0.1"), "not an in-toto statement: _type"),
        (_changed("predicateType", "https://slsa.dev/provenance/v1"), "predicate type is https"),
        (_changed("predicateType", "https://shiftboss.dev/landing/v1"), "predicate.format"),
        (_changed("subject.0.digest", {"gitCommit": "0" * 40}), "subject of the statement"),
        (_changed("subject.1.digest", {"gitTree": "0" * 40}), "subject of the statement"),
        (_changed("predicate.extra", 1), "predicate.extra"),
        (_changed("predicate.accepted_at", "2020-01-05T10:00:00Z"), "contradicts itself"),
        (resigned(canonical_json(statement())[:-1] + b',"_type":""}'), "'_type' twice"),
        (resigned(b"null"), "not an in-toto statement"),
    ],
)
def test_a_signed_statement_that_makes_no_sense_is_refused(text: bytes, complaint: str) -> None:
    verify_by_library(text)
    with pytest.raises(InvalidReceipt, match=complaint):
        check(text)


def test_a_payload_that_is_not_base64_is_refused() -> None:
    forged = json.loads(ENVELOPE) | {"payload": "§"}
    with pytest.raises(InvalidReceipt, match="payload is not base64"):
        check(json.dumps(forged).encode())


def note(*lines: bytes) -> bytes:
    return b"\n".join(lines) + b"\n"


def test_the_note_of_an_accepted_commit_has_its_receipt() -> None:
    other_server = line(body(receipt_id="r-2"), OTHER_KEY)
    text = note(b"Looks good to me {}", other_server, b'{"payloadType": "signatures"', ENVELOPE)
    (proven,) = verify_note(text, COMMIT, KEY.public_pem)
    assert proven == (BODY, None, KEY.key_id)


def test_the_note_of_a_squash_names_the_receipt_of_what_was_squashed() -> None:
    (proven,) = verify_note(note(line(LANDING), ENVELOPE), SQUASH, KEY.public_pem)
    assert proven == (BODY, LANDING, KEY.key_id)


def _renamed(**members: str) -> LandingBody:
    return LANDING.model_copy(update=members)


@pytest.mark.parametrize(
    ("text", "commit", "complaint"),
    [
        (note(ENVELOPE), SQUASH, f"not about the commit {SQUASH}, but about {COMMIT}"),
        (note(line(LANDING), ENVELOPE), "8" * 40, f"but about {SQUASH}, {COMMIT}"),
        (note(line(_renamed(landed_as="8" * 40)), ENVELOPE), SQUASH, "not about the commit"),
        (note(line(_renamed(commit="8" * 40)), ENVELOPE), SQUASH, "not about the commit"),
        (note(line(_renamed(receipt_id="r-9")), ENVELOPE), SQUASH, "not about the commit"),
        (note(line(LANDING)), SQUASH, "not about the commit"),
        (note(line(LANDING, OTHER_KEY), ENVELOPE), SQUASH, "not about the commit"),
        (note(line(BODY, OTHER_KEY)), COMMIT, f"no envelope that names the key {KEY.key_id}"),
        (b"nothing", COMMIT, "no envelope"),
        (b"\n" * 2000, COMMIT, "more than 1000 lines"),
    ],
    ids=[
        *("moved", "moved_squash", "other_squash", "other_work", "other_receipt", "no_receipt"),
        *("landing_of_another_key", "another_key", "no_envelope", "too_long"),
    ],
)
def test_a_note_that_proves_nothing_about_its_commit_is_refused(
    text: bytes, commit: str, complaint: str
) -> None:
    with pytest.raises(InvalidReceipt, match=complaint):
        verify_note(text, commit, KEY.public_pem)


def test_a_changed_envelope_in_a_note_is_refused() -> None:
    forged = ENVELOPE.replace(
        json.loads(ENVELOPE)["signatures"][0]["sig"].encode(), b"A" * 86 + b"=="
    )
    with pytest.raises(InvalidReceipt, match="signature is wrong"):
        verify_note(note(forged), COMMIT, KEY.public_pem)


def test_the_note_and_the_receipt_of_two_servers_verify_with_both_keys() -> None:
    keys = OTHER_KEY.public_pem + KEY.public_pem
    other = line(BODY, OTHER_KEY)
    (proven,) = verify_note(note(other, ENVELOPE), COMMIT, keys)
    assert proven == (BODY, None, KEY.key_id)
    squash = note(line(LANDING), ENVELOPE, line(LANDING, OTHER_KEY), other)
    (proven,) = verify_note(squash, SQUASH, keys)
    assert (proven.receipt, proven.landing) == (BODY, LANDING)
    for envelope in (other, ENVELOPE):
        assert verify_envelope(read_envelope(envelope), keys) == BODY
