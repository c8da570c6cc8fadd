"""Notices claims that are not being verified: every verifier has passed on them, or none is
there."""

from __future__ import annotations

from functools import partial

from shiftboss.coordinator.claims import claim_passes, verdicts
from shiftboss.coordinator.clock import Clock
from shiftboss.coordinator.duties.timer import DUE_PER_ROUND_MAX, Timer
from shiftboss.coordinator.event_hub import Hub
from shiftboss.protocol.events import EventKind
from shiftboss.rules.claims.claim_passes import is_given_up
from shiftboss.rules.claims.claims import Claim
from shiftboss.store.port import Transaction, Transactions

# A verifier that is gone is noticed when its time is over, which no event tells.
CHECK_EVERY_MS = 15_000


class ClaimWatcher(Timer):
    """The claims and the verifiers are in the store, so a restart loses nothing."""

    def __init__(self, store: Transactions, clock: Clock, hub: Hub) -> None:
        super().__init__(store, clock, hub, EventKind.CLAIM_MADE)

    async def act(self, now_ms: int) -> None:
        for claim in await self.store.read(partial(_given_up, now_ms=now_ms)):
            await self.store.write(
                partial(verdicts.give_up, seen=claim, now_ms=now_ms), claim.swarm_id
            )

    async def next_at_ms(self) -> int | None:
        now_ms = self.clock()
        unattended = await self.store.read(lambda tx: tx.unattended_claims(now_ms, 1))
        return now_ms + CHECK_EVERY_MS if unattended else None


def _given_up(tx: Transaction, now_ms: int) -> list[Claim]:
    claims = tx.unattended_claims(now_ms, DUE_PER_ROUND_MAX)
    living = claim_passes.living_verifiers(tx, now_ms) if claims else {}
    return [claim for claim in claims if is_given_up(claim, living, tx.claim_passes(claim), now_ms)]
