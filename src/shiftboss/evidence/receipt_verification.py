"""Reading receipts, and verifying them without the server that signed them."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections import Counter
from collections.abc import Collection, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, NoReturn, TypeVar

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from pydantic import BaseModel, ValidationError

from shiftboss.errors import InvalidReceipt
from shiftboss.evidence.keys import key_id_of, signed_bytes
from shiftboss.protocol.claims.receipts import (
    RECEIPT_FORMAT,
    RECEIPT_FORMAT_1,
    RECEIPT_FORMAT_2,
    ReceiptBody,
    ReceiptBodyV1,
    ReceiptCheck,
    SignedReceipt,
)
from shiftboss.protocol.handoffs import WorkerHandoff, canonical_json, handoff_hash

M = TypeVar("M", bound=BaseModel)
RECEIPT_BYTES_MAX: Final = 32 * 2**20
# More than any deployment has had.
KEYS_MAX: Final = 1000
_PUBLIC_KEY: Final = re.compile(
    "-----BEGIN PUBLIC KEY-----.*?-----END PUBLIC KEY-----", re.DOTALL | re.ASCII
)
RECEIPT_FORMATS: Final = (RECEIPT_FORMAT_1, RECEIPT_FORMAT_2, RECEIPT_FORMAT)


def read_receipt(text: bytes) -> SignedReceipt:
    """Parse a receipt. Raises InvalidReceipt for duplicate members and for members that no receipt
    has."""
    return parse_exactly(SignedReceipt, text, "a receipt")


def parse_exactly(model: type[M], text: bytes, what: str) -> M:
    """Parse JSON that has been signed: nothing in it may be dropped, converted or ambiguous.
    Raises InvalidReceipt, which says that the text is not `what`."""
    if len(text) > RECEIPT_BYTES_MAX:
        raise InvalidReceipt(f"This is not {what}: it has more than {RECEIPT_BYTES_MAX} bytes")
    try:
        value = json.loads(
            text.decode(), object_pairs_hook=_unique_members, parse_constant=_refuse_constant
        )
        parsed = model.model_validate(value)
        if canonical_json(value) != canonical_json(parsed):
            raise InvalidReceipt(f"This is not {what}: it has unknown members")
    except ValidationError as exc:
        raise _malformed(exc, what) from exc
    except (ValueError, RecursionError) as exc:
        raise InvalidReceipt(f"This is not {what}: {exc}") from exc
    return parsed


def verify_receipt(
    signed: SignedReceipt, public_pem: str, handoff: WorkerHandoff | None = None
) -> None:
    """Raises InvalidReceipt unless the key that the receipt names, one of `public_pem`, signed it,
    and the receipt contradicts neither itself nor the handoff, if that is given."""
    keys = public_keys(public_pem)
    key = keys.get(signed.key_id)
    if key is None:
        raise unknown_key(f"The receipt names the key {signed.key_id}", keys, "key_id")
    verify_signature(key, signed.signature, signed_bytes(signed.receipt))
    check_facts(signed.receipt)
    if handoff is not None:
        _check_handoff(signed.receipt, handoff)


def verify_signature(key: Ed25519PublicKey, signature: str, content: bytes) -> None:
    """`signature` is base64."""
    try:
        key.verify(_decoded(signature), content)
    except InvalidSignature:
        raise InvalidReceipt(
            "The signature is wrong: the receipt was changed, or another key signed it",
            field="signature",
        ) from None


def check_facts(body: ReceiptBody) -> None:
    """Raises InvalidReceipt if the receipt contradicts itself."""
    waived = Counter(check.outcome for check in body.checks)["waived"]
    contradictions = {
        "contract": body.contract.task_id != body.bead_id,
        # A task that owns no files only reads.
        "commit": body.commit == body.base_commit and bool(body.contract.files_owned),
        "checks": any(check.outcome == "failed" for check in body.checks)
        or (not isinstance(body, ReceiptBodyV1) and not all(map(_is_consistent, body.checks))),
        "waivers": waived > 0 and not body.waivers,
        "diff": body.diff.files_changed < len(body.diff.changes),
        "accepted_at": not body.claimed_at <= body.verified_at <= body.accepted_at,
    }
    for field, contradicts in contradictions.items():
        if contradicts:
            raise InvalidReceipt(f"The receipt contradicts itself in {field}", field=field)


def _is_consistent(check: ReceiptCheck) -> bool:
    """Whether the counts fit, and no sabotaged test passed in a check that passed."""
    tests, canaries, mutants = check.tests, check.canaries, check.mutants
    if tests is not None and tests.passed > tests.ran:
        return False
    if mutants is not None and (
        len(mutants.listed) > mutants.total or mutants.killed > mutants.total
    ):
        return False
    if canaries is None:
        return True
    if len(canaries.listed) > canaries.total or canaries.failed > canaries.total:
        return False
    unnoticed = any(canary.outcome == "passed" for canary in canaries.listed)
    return not (unnoticed and check.outcome == "passed")


def _check_handoff(body: ReceiptBody, handoff: WorkerHandoff) -> None:
    if handoff.contract != body.contract or handoff_hash(handoff) != body.contract_hash:
        raise InvalidReceipt("The receipt is about another handoff", field="contract_hash")


def unknown_key(statement: str, keys: Collection[str], field: str) -> InvalidReceipt:
    given = f"this key is {next(iter(keys))}" if len(keys) == 1 else f"these are {', '.join(keys)}"
    return InvalidReceipt(
        f"{statement}, but {given}",
        field=field,
        hint="give the public key of the server that signed the receipt",
    )


@lru_cache(maxsize=16)
def public_keys(pem: str) -> Mapping[str, Ed25519PublicKey]:
    """The keys in the text, one or several, by their ids. Raises InvalidReceipt if there is none,
    or one that is no Ed25519 key."""
    texts = _PUBLIC_KEY.findall(pem)[:KEYS_MAX] or [pem]
    keys = [public_key(text) for text in texts]
    return MappingProxyType({key_id_of(key): key for key in keys})


def public_key(pem: str) -> Ed25519PublicKey:
    try:
        key = load_pem_public_key(pem.encode())
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise InvalidReceipt("This is not an Ed25519 public key in PEM form", field="public_key")
    return key


def _decoded(text: str) -> bytes:
    """Base64 can encode the same bytes in several ways; only the canonical one is accepted."""
    try:
        signature = base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        signature = b""
    if base64.b64encode(signature).decode() != text:
        raise InvalidReceipt("The signature is not base64", field="signature")
    return signature


def _unique_members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        name = next(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        raise ValueError(f"it has {name!r} twice")
    return members


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _malformed(exc: ValidationError, what: str) -> InvalidReceipt:
    first = exc.errors(include_url=False, include_input=False)[0]
    # Pydantic names the format, which it tells the two kinds of receipts by, as a part of the path.
    field = ".".join(str(part) for part in first["loc"] if part not in RECEIPT_FORMATS)
    return InvalidReceipt(f"This is not {what}: {field}: {first['msg']}", field=field)
