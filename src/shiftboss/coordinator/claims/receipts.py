"""The operations of receipts: show, list, and export them in the form that other tools read."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from shiftboss.coordinator.deployment.keys import key_view
from shiftboss.coordinator.runs.landings import accepted_commits
from shiftboss.errors import Conflict, InvalidRequest, UnknownHandoff, UnknownReceipt, UnknownTask
from shiftboss.evidence.port import Evidence
from shiftboss.protocol.claims.attestations import Envelope, LandingBody
from shiftboss.protocol.claims.claim_requests import (
    ExportReceiptAnswer,
    ExportReceiptRequest,
    ListReceiptsRequest,
    ReceiptAnswer,
    ReceiptLine,
    ReceiptList,
    ReceiptRequest,
)
from shiftboss.protocol.claims.receipts import SignedReceipt
from shiftboss.rules.access.actors import Actor
from shiftboss.rules.claims.statements import landing_of
from shiftboss.rules.deployment.records import StoredKey
from shiftboss.rules.handoffs.handoffs import Handoff
from shiftboss.rules.tasks.tasks import is_reserved
from shiftboss.store.current_actor import CURRENT_ACTOR
from shiftboss.store.handoffs.port import ReceiptRow
from shiftboss.store.port import Store, Transaction


class ReceiptService:
    def __init__(self, store: Store, evidence: Evidence) -> None:
        self._store = store
        self._evidence = evidence

    async def show_receipt(self, request: ReceiptRequest, _key: str | None = None) -> ReceiptAnswer:
        reader = CURRENT_ACTOR.get()

        def read(tx: Transaction) -> tuple[dict[str, Any], StoredKey | None]:
            signed = json.loads(_find(tx, request.swarm_id, request.bead_id, reader).body)
            return signed, tx.signing_key(signed["key_id"])

        signed, key = await self._store.read(read)
        return ReceiptAnswer(
            signed_receipt=signed, public_key="" if key is None else key.public_key
        )

    async def list_receipts(
        self, request: ListReceiptsRequest, _key: str | None = None
    ) -> ReceiptList:
        reader = CURRENT_ACTOR.get()
        after = _parse_page_mark(request.after)
        rows, keys = await self._store.read(
            lambda tx: (tx.receipts_after(after, request.limit), tx.signing_keys())
        )
        full = len(rows) == request.limit
        return ReceiptList(
            receipts=[_receipt_line(row) for row in rows if reader.sees(row.swarm_id)],
            next_after=f"{rows[-1].accepted_at_ms}:{rows[-1].receipt_id}" if full else None,
            public_key=self._evidence.public_key,
            keys=[key_view(key) for key in keys],
        )

    async def export_receipt(
        self, request: ExportReceiptRequest, _key: str | None = None
    ) -> ExportReceiptAnswer:
        """Envelopes are made on demand: the same receipt always gives the same bytes. The server
        vouches for a squash only after it has looked at the repository itself."""
        row = await self._find(request)
        target = None
        if request.landed_as is not None:
            target = await self._check_is_squash(row, request.landed_as)
        # Parsing and signing a large receipt takes milliseconds.
        receipt, landing = await asyncio.to_thread(self._attest, row, target, request.landed_as)
        return ExportReceiptAnswer(
            receipt_id=row.receipt_id,
            commit=row.commit_sha,
            receipt=receipt.model_dump(mode="json"),
            landing=None if landing is None else landing.model_dump(mode="json"),
            public_key=self._evidence.public_key,
        )

    async def _find(self, request: ReceiptRequest | ExportReceiptRequest) -> ReceiptRow:
        reader = CURRENT_ACTOR.get()
        return await self._store.read(
            lambda tx: _find(tx, request.swarm_id, request.bead_id, reader)
        )

    def _attest(
        self, row: ReceiptRow, target: str | None, landed_as: str | None
    ) -> tuple[Envelope, Envelope | None]:
        body = SignedReceipt.model_validate_json(row.body).receipt
        receipt = self._evidence.attest(body)
        if target is None or landed_as is None:
            return receipt, None
        landing: LandingBody = landing_of(body, target, landed_as)
        return receipt, self._evidence.attest(landing)

    async def _check_is_squash(self, row: ReceiptRow, landed_as: str) -> str:
        """The target of the work. Raises Conflict unless that branch has the work as this
        squash."""
        handoff, accepted = await self._store.read(
            lambda tx: (
                _handoff(tx, row),
                accepted_commits(tx, row.swarm_id, row.task_id, row.commit_sha),
            )
        )
        target = handoff.target
        if target is None or not await self._evidence.is_squash_of(
            handoff.repo, landed_as, row.commit_sha, accepted, target
        ):
            raise Conflict(
                f"{landed_as} is not a squash of {row.commit_sha[:12]}, the accepted commit of "
                f"{row.task_id}, on its target {target}",
                field="landed_as",
                hint="land the work first; leave out landed_as for work that landed by a merge",
            )
        return target


def _find(tx: Transaction, swarm_id: str, name: str, reader: Actor) -> ReceiptRow:
    """The newest receipt of a task, or the receipt of this id."""
    row = tx.receipt_of_task(swarm_id, name) or tx.receipt(name)
    if row is not None and reader.sees(row.swarm_id):
        return row
    if tx.task(swarm_id, name) is None and not is_reserved(name):
        raise UnknownTask(name)
    raise UnknownReceipt(
        f"{name} has no receipt",
        field="bead_id",
        hint="a task gets one when its completion is accepted",
    )


def _handoff(tx: Transaction, row: ReceiptRow) -> Handoff:
    handoff = tx.handoff(row.swarm_id, row.task_id)
    if handoff is None:
        raise UnknownHandoff(row.task_id)
    return handoff


def _parse_page_mark(after: str) -> tuple[int, str]:
    """(accepted_at_ms, receipt_id) of the last row of the page before."""
    at_ms, _, receipt_id = after.partition(":")
    if not after:
        return 0, ""
    # Bounded, because a store cannot hold larger numbers.
    if not (at_ms.isascii() and at_ms.isdecimal() and len(at_ms) <= 15 and receipt_id):
        raise InvalidRequest("after: must be the next_after of another page", field="after")
    return int(at_ms), receipt_id


def _receipt_line(row: ReceiptRow) -> ReceiptLine:
    return ReceiptLine(
        receipt_id=row.receipt_id,
        swarm_id=row.swarm_id,
        bead_id=row.task_id,
        title=row.title,
        commit=row.commit_sha,
        accepted_at=row.accepted_at_ms,
    )
