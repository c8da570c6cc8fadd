"""Evidence and verification inside the test process, without an evidence process."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from pathlib import Path

from shiftboss.evidence.checks.verifier import Verifier
from shiftboss.evidence.inspector import Inspector
from shiftboss.evidence.keys import KEY_FILE, KeyFile
from shiftboss.protocol.claims.attestations import Envelope
from shiftboss.protocol.claims.receipts import ReceiptBody, SignedReceipt
from shiftboss.protocol.claims.verdicts import Verdict, VerificationJob
from shiftboss.rules.claims.statements import StatementBody


class LocalEvidence(Inspector):
    """An `Evidence` for the coordinator of a test."""

    def __init__(self, folder: Path, own_repo: str | None) -> None:
        super().__init__(folder)
        self.own_repo = own_repo
        self._keys = KeyFile(folder / KEY_FILE)

    @property
    def public_key(self) -> str:
        return self._keys.key.public_pem

    def replace_key(self, retired: Collection[str]) -> bool:
        return self._keys.replace(retired)

    def sign(self, body: ReceiptBody) -> SignedReceipt:
        return self._keys.key.sign(body)

    def attest(self, body: StatementBody) -> Envelope:
        return self._keys.key.attest(body)


def verify(folder: Path, *jobs: VerificationJob) -> list[Verdict]:
    """Verify the claims concurrently, and wait until all checkouts are removed."""

    async def run() -> list[Verdict]:
        verifier = Verifier(folder / "verifier")
        try:
            return await asyncio.gather(*(verifier.verify(job) for job in jobs))
        finally:
            await verifier.close()

    return asyncio.run(run())
