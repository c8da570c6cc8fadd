"""The keys that have signed receipts, on the wire."""

from __future__ import annotations

from typing import Annotated

from pydantic import StringConstraints

from shiftboss.protocol.bus import BusRequest
from shiftboss.protocol.fields import NO_NUL, Answer

KEY_ID_PATTERN = r"^[0-9a-f]{16}$"
PEM_CHARACTERS_MAX = 2000


class KeyView(Answer):
    """`public_key` is in PEM form. A retired key signs no more; what it signed before stays
    genuine."""

    key_id: str
    public_key: str
    added_at: str
    added_by: str
    retired_at: str | None = None
    retired_by: str | None = None


class AddKeyRequest(BusRequest):
    """The public key of a server whose receipts are to count as genuine, in PEM form."""

    public_key: Annotated[str, StringConstraints(max_length=PEM_CHARACTERS_MAX, pattern=NO_NUL)]


class RetireKeyRequest(BusRequest):
    key_id: Annotated[str, StringConstraints(pattern=KEY_ID_PATTERN)]


class KeyAnswer(Answer):
    """`signing_key_id` is the key that the server signs with from now on."""

    key: KeyView
    signing_key_id: str
