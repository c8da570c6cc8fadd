"""The server's signing key: an Ed25519 key in a file that only its owner can read."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import Final

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from shiftboss.errors import EvidenceUnavailable
from shiftboss.protocol.attestations import PAYLOAD_TYPE, Envelope, EnvelopeSignature
from shiftboss.protocol.handoffs import canonical_json
from shiftboss.protocol.receipts import ReceiptBody, SignedReceipt
from shiftboss.rules.claims.statements import StatementBody, payload_of, signed_encoding
from shiftboss.system.private_files import read_private, write_once

KEY_FILE: Final = "receipt-key.pem"
KEY_ID_CHARACTERS: Final = 16


class SigningKey:
    def __init__(self, private: Ed25519PrivateKey) -> None:
        self._private = private
        self.key_id = key_id_of(private.public_key())
        self.public_pem = (
            private.public_key()
            .public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
            .decode()
        )

    @classmethod
    def load_or_create(cls, path: Path) -> SigningKey:
        """Of several servers that start at once, one creates the key and all of them use it."""
        if not path.exists():
            write_once(path, _new_key())
        return cls(_load(path))

    def sign(self, body: ReceiptBody) -> SignedReceipt:
        signature = self._private.sign(signed_bytes(body))
        return SignedReceipt(
            receipt=body,
            key_id=self.key_id,
            algorithm="ed25519",
            signature=base64.b64encode(signature).decode(),
        )

    def attest(self, body: StatementBody) -> Envelope:
        """The statement of a receipt or a landing, in an envelope. The same body gives the same
        envelope."""
        payload = payload_of(body)
        signature = self._private.sign(signed_encoding(payload))
        return Envelope(
            payload=base64.b64encode(payload).decode(),
            payloadType=PAYLOAD_TYPE,
            signatures=[
                EnvelopeSignature(keyid=self.key_id, sig=base64.b64encode(signature).decode())
            ],
        )


def signed_bytes(body: ReceiptBody) -> bytes:
    """The name of the format comes first: a signature for one purpose must not serve another."""
    return f"{body.format}\n".encode() + canonical_json(body)


def key_id_of(public: Ed25519PublicKey) -> str:
    return hashlib.sha256(public.public_bytes_raw()).hexdigest()[:KEY_ID_CHARACTERS]


def _new_key() -> bytes:
    return Ed25519PrivateKey.generate().private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
    )


def _load(path: Path) -> Ed25519PrivateKey:
    content = read_private(path, "the signing key")
    try:
        key = load_pem_private_key(content, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as exc:
        raise _damaged(path) from exc
    if not isinstance(key, Ed25519PrivateKey):
        raise _damaged(path)
    return key


def _damaged(path: Path) -> EvidenceUnavailable:
    return EvidenceUnavailable(
        f"{path} is not an Ed25519 key in PEM form",
        hint="restore the key from a backup, or move the file away, and the next start creates a "
        "new one",
    )
