"""Verifies claims on the server's own machine, a few at once."""

from __future__ import annotations

import asyncio
import contextlib
from typing import ClassVar

from shiftboss.coordinator.claims.service import TAKABLE, ClaimService
from shiftboss.coordinator.clock import Clock
from shiftboss.coordinator.duties.timer import Timer
from shiftboss.coordinator.event_hub import Hub
from shiftboss.errors import ShiftbossError
from shiftboss.evidence.checks.claim_renewal import verify_with_renewal
from shiftboss.evidence.port import Evidence
from shiftboss.protocol.claims.verdicts import VerificationJob
from shiftboss.store.port import Transaction, Transactions

# The evidence process limits how many run expensive commands at a time. One slow repository must
# not hold up the others.
AT_ONCE = 8
# A server that stops does not wait longer for its database.
LEAVE_SECONDS = 2.0


class Verification(Timer):
    """A claim that was being verified when the server died is verified again."""

    # A server that takes a claim has it alone, so more servers verify more claims.
    on_every_server: ClassVar[bool] = True

    def __init__(
        self,
        store: Transactions,
        clock: Clock,
        hub: Hub,
        claims: ClaimService,
        evidence: Evidence,
        name: str,
        at_once: int = AT_ONCE,
    ) -> None:
        super().__init__(store, clock, hub, *TAKABLE)
        self._claims = claims
        self._evidence = evidence
        self._name = name
        self._at_once = at_once
        self._running: set[asyncio.Task[None]] = set()
        self._freed = False

    async def run(self) -> None:
        try:
            await super().run()
        finally:
            for task in self._running:
                task.cancel()
            await asyncio.gather(*self._running, return_exceptions=True)
            await self._leave()

    async def _leave(self) -> None:
        """Another verifier may take its claims at once, without waiting for this one."""
        with contextlib.suppress(ShiftbossError, TimeoutError):
            async with asyncio.timeout(LEAVE_SECONDS):
                await self.store.write(self._forget, "")

    def _forget(self, tx: Transaction) -> None:
        tx.free_claims_of(self._name)
        tx.forget_verifier(self._name)

    async def act(self, now_ms: int) -> None:
        del now_ms
        if not self._freed:
            await self.store.write(lambda tx: tx.free_claims_of(self._name), "")
            self._freed = True
        while len(self._running) < self._at_once:
            job = await self._claims.take_for(self._name)
            if job is None:
                return
            task = asyncio.create_task(self._verify(job))
            self._running.add(task)
            task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._changed.set()

    async def next_at_ms(self) -> int | None:
        if len(self._running) >= self._at_once:
            return None
        return await self.store.read(lambda tx: tx.next_claim_at_ms(self._name))

    async def _verify(self, job: VerificationJob) -> None:
        verdict = await verify_with_renewal(
            job, self._name, self._evidence.verify, self._claims.renew_claim
        )
        if verdict is not None:
            # If the store refuses it now, the claim times out and is taken again.
            with contextlib.suppress(ShiftbossError):
                await self._claims.report_verdict(verdict)
