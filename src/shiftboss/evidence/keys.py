"""The server's signing key: an Ed25519 key in a file that only its owner can read."""

from __future__ import annotations

import base64
import hashlib
import secrets
from collections.abc import Collection
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
from shiftboss.protocol.claims.attestations import PAYLOAD_TYPE, Envelope, EnvelopeSignature
from shiftboss.protocol.claims.receipts import ReceiptBody, SignedReceipt
from shiftboss.protocol.handoffs import canonical_json
from shiftboss.rules.claims.statements import StatementBody, payload_of, signed_encoding
from shiftboss.system.file_locks import LockHeldError, locked
from shiftboss.system.files import sync_folder
from shiftboss.system.private_files import read_private, write_once

KEY_FILE: Final = "receipt-key.pem"
KEY_ID_CHARACTERS: Final = 16
# Servers that share the file replace it one after the other.
_LOCK_SECONDS: Final = 10.0


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


class KeyFile:
    """The key that this server signs with, and the file that it is in. Several servers may share
    the file."""

    def __init__(self, path: Path) -> None:
        """A file that does not exist is created."""
        self._path = path
        self.key = SigningKey.load_or_create(path)

    def replace(self, retired: Collection[str]) -> bool:
        """Sign with another key if this one is retired: with the key that is in the file by now, or
        with a new key, which replaces the retired one on disk. Raises EvidenceUnavailable, and
        keeps the old one, if the file cannot be replaced."""
        if self.key.key_id not in retired:
            return False
        try:
            with locked(self._path.with_name(f".{self._path.name}.lock"), _LOCK_SECONDS):
                key = SigningKey(_load(self._path)) if self._path.exists() else self.key
                if key.key_id in retired:
                    _overwrite(self._path, _new_key())
                    key = SigningKey(_load(self._path))
        except (OSError, LockHeldError) as error:
            raise EvidenceUnavailable(
                f"The key {self.key.key_id} is retired, and {self._path} cannot be replaced: "
                f"{error}",
                hint=f"make the folder of {self._path} writable for the server, or put another "
                "Ed25519 key there, and restart the server",
            ) from error
        self.key = key
        return True


def _overwrite(path: Path, content: bytes) -> None:
    """The former key is gone: it must never sign again."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    write_once(temporary, content)
    temporary.replace(path)
    sync_folder(path.parent)


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
