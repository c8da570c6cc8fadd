"""The keys of a deployment: every server's public key is in the store, by its id.

A receipt names the key that signed it, and verifies with that key, whichever server shows it. A
retired key signs no more: the server that has it makes itself a new one.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial

from shiftboss.coordinator.clock import Clock
from shiftboss.coordinator.deployment.shared_settings import SharedSettings
from shiftboss.coordinator.event_hub import Hub
from shiftboss.errors import EvidenceUnavailable, InvalidReceipt, InvalidRequest, UnknownKey
from shiftboss.evidence.keys import key_id_of
from shiftboss.evidence.port import Evidence
from shiftboss.evidence.receipt_verification import public_key
from shiftboss.protocol.claims.receipts import ReceiptBody, SignedReceipt
from shiftboss.protocol.deployment.keys import (
    AddKeyRequest,
    KeyAnswer,
    KeyView,
    RetireKeyRequest,
)
from shiftboss.protocol.fields import wire_time
from shiftboss.rules.access.actors import SERVER
from shiftboss.rules.deployment.records import StoredKey
from shiftboss.store.port import Store, Transaction

log = logging.getLogger(__name__)


class KeyService:
    """Keeps the public keys of the store, and the own one among them. `problem` is set while this
    server cannot sign, because its key is retired."""

    def __init__(
        self, store: Store, clock: Clock, hub: Hub, evidence: Evidence, settings: SharedSettings
    ) -> None:
        self._store = store
        self._clock = clock
        self._hub = hub
        self._evidence = evidence
        self._settings = settings
        self.problem: str | None = None
        settings.add(self.load)

    @property
    def own_key_id(self) -> str:
        """Empty if this process signs nothing."""
        pem = self._evidence.public_key
        return key_id_of(public_key(pem)) if pem else ""

    async def load(self) -> None:
        """Sign with a key that is in the store and not retired."""
        if self._hub.is_offline or not self._evidence.public_key:
            return
        keys = await self._store.read(lambda tx: tx.signing_keys())
        retired = {key.key_id for key in keys if key.retired_at_ms is not None}
        if self.own_key_id in retired:
            await self._replace(retired)
        if self.own_key_id not in {key.key_id for key in keys}:
            await self._store.write(
                partial(_add, pem=self._evidence.public_key, by=SERVER.name, now_ms=self._clock()),
                partition="",
            )

    async def _replace(self, retired: set[str]) -> None:
        former = self.own_key_id
        try:
            await asyncio.to_thread(self._evidence.replace_key, retired)
        except EvidenceUnavailable as error:
            if self.problem is None:
                log.warning("no receipt can be signed: %s; %s", error.detail, error.hint)
            self.problem = f"{error.detail}; {error.hint}"
            return
        self.problem = None
        log.warning(
            "the signing key %s is retired; this server signs with the new key %s",
            former,
            self.own_key_id,
        )

    async def add_key(self, request: AddKeyRequest, _key: str | None = None) -> KeyAnswer:
        """For receipts of a server that is gone, or not started yet in this version."""
        try:
            public_key(request.public_key)
        except InvalidReceipt as error:
            raise InvalidRequest(f"public_key: {error.detail}", field="public_key") from None
        now_ms = self._clock()
        stored = await self._store.write(
            lambda tx: _add(tx, request.public_key, tx.actor.name, now_ms), partition=""
        )
        return await self._changed(stored)

    async def retire_key(self, request: RetireKeyRequest, _key: str | None = None) -> KeyAnswer:
        now_ms = self._clock()
        stored = await self._store.write(
            partial(_retire, key_id=request.key_id, now_ms=now_ms), partition=""
        )
        return await self._changed(stored)

    async def _changed(self, stored: StoredKey) -> KeyAnswer:
        await self._settings.read_own_change()
        return KeyAnswer(key=key_view(stored), signing_key_id=self.own_key_id)


def signed_in(tx: Transaction, body: ReceiptBody, evidence: Evidence, now_ms: int) -> SignedReceipt:
    """Sign a receipt, with a key that the store has and that is not retired by now."""
    signed = evidence.sign(body)
    stored = tx.signing_key(signed.key_id)
    if stored is None:
        added = _add(tx, evidence.public_key, SERVER.name, now_ms)
        if added.key_id != signed.key_id:
            raise EvidenceUnavailable("the signing key was replaced", hint="send the verdict again")
    elif stored.retired_at_ms is not None:
        raise EvidenceUnavailable(
            f"the signing key {signed.key_id} of this server is retired",
            hint="the server replaces it; `shiftboss doctor` says if it cannot",
        )
    return signed


def _add(tx: Transaction, pem: str, by: str, now_ms: int) -> StoredKey:
    """Nothing changes if the store has it, retired or not."""
    key_id = key_id_of(public_key(pem))
    key = StoredKey(key_id, pem, now_ms, by)
    if tx.add_signing_key(key):
        tx.announce_settings()
        return key
    return tx.signing_key(key_id) or key


def _retire(tx: Transaction, key_id: str, now_ms: int) -> StoredKey:
    """A repeat changes nothing."""
    if tx.retire_signing_key(key_id, now_ms, tx.actor.name):
        tx.announce_settings()
    key = tx.signing_key(key_id)
    if key is None:
        raise UnknownKey(
            f"there is no key {key_id}",
            field="key_id",
            hint="`shiftboss receipt keys` lists them",
        )
    return key


def key_view(key: StoredKey) -> KeyView:
    return KeyView(
        key_id=key.key_id,
        public_key=key.public_key,
        added_at=wire_time(key.added_at_ms),
        added_by=key.added_by,
        retired_at=None if key.retired_at_ms is None else wire_time(key.retired_at_ms),
        retired_by=key.retired_by,
    )
