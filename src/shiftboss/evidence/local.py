"""The evidence in one process: what can be looked at here, and the signing key.

A server has the looking done apart from itself; see apart.py.
"""

from __future__ import annotations

from pathlib import Path

from shiftboss.evidence.inspector import Inspector
from shiftboss.evidence.keys import KEY_FILE, SigningKey
from shiftboss.protocol.receipts import ReceiptBody, SignedReceipt


class LocalEvidence(Inspector):
    """Keeps its key in the folder of the database."""

    def __init__(self, folder: Path, own_repo: str | None) -> None:
        self.own_repo = own_repo
        self._key = SigningKey.load_or_create(folder / KEY_FILE)
        self.public_key = self._key.public_pem
        super().__init__(folder)

    def sign(self, body: ReceiptBody) -> SignedReceipt:
        return self._key.sign(body)
