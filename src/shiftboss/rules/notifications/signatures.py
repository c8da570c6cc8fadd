"""Signatures of webhooks, as https://www.standardwebhooks.com describes them."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from typing import Final

_PREFIX: Final = "whsec_"
KEY_BYTES_MIN: Final = 16


class BadSecret(Exception):
    """The secret cannot sign. The text does not contain it."""


def key_of(secret: str) -> bytes:
    """`whsec_` and Base64, or the characters of anything else. Raises BadSecret."""
    key = secret.encode()
    if secret.startswith(_PREFIX):
        try:
            key = base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
        except binascii.Error:
            raise BadSecret("what follows whsec_ is not Base64") from None
    if len(key) < KEY_BYTES_MIN:
        raise BadSecret(f"it is shorter than {KEY_BYTES_MIN} bytes")
    return key


def signed_headers(key: bytes, message_id: str, at_seconds: int, body: bytes) -> dict[str, str]:
    """The time is that of the attempt, so that a receiver can refuse old ones."""
    signed = f"{message_id}.{at_seconds}.".encode() + body
    digest = hmac.new(key, signed, hashlib.sha256).digest()
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(at_seconds),
        "webhook-signature": f"v1,{base64.b64encode(digest).decode()}",
    }
