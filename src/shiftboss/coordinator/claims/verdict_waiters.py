"""Requests that wait for the verdict of a claim."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from shiftboss.coordinator.clock import Clock
from shiftboss.coordinator.event_hub import Hub
from shiftboss.errors import ContractViolations, NotHeld
from shiftboss.protocol.events import Event, EventKind
from shiftboss.protocol.handoff_requests import WAIT_MS_MAX, CompletionAnswer
from shiftboss.rules.claims.claims import Claim
from shiftboss.rules.claims.receipt_content import receipt_id_of
from shiftboss.store.port import Store, Transaction

_ENDING = (
    EventKind.CLAIM_ACCEPTED,
    EventKind.CLAIM_REFUSED,
    EventKind.ATTEMPT_ENDED,
    EventKind.TASK_FAILED,
)
_ENDED = ("accepted", "refused", "void")
VERIFYING_HINT = "the server is still verifying: repeat the request to wait for the verdict"


class VerdictWaiters:
    """Wakes the requests that wait when the claim, its attempt or its task ends."""

    def __init__(self, store: Store, clock: Clock, hub: Hub) -> None:
        self._store = store
        self._clock = clock
        self._hub = hub
        self._waiting: dict[tuple[str, str], dict[asyncio.Event, None]] = {}
        for kind in _ENDING:
            hub.listen(kind, self._wake_waiters)
        hub.on_close(self._wake_all)

    def _wake_all(self) -> None:
        for waiters in self._waiting.values():
            for waiter in waiters:
                waiter.set()

    def _wake_waiters(self, event: Event) -> None:
        if self._waiting:
            task_id = json.loads(event.data)["bead_id"]
            for waiter in self._waiting.get((event.swarm_id, task_id), ()):
                waiter.set()

    async def wait_for_end(self, claim: Claim, wait_ms: int) -> Claim:
        """The claim once it has a verdict, at the timeout, or when the server stops."""
        key = (claim.swarm_id, claim.task_id)
        waiter = asyncio.Event()
        self._waiting.setdefault(key, {})[waiter] = None
        try:
            return await self._until(claim, waiter, min(wait_ms, WAIT_MS_MAX) / 1000)
        finally:
            self._waiting[key].pop(waiter, None)
            if not self._waiting[key]:
                del self._waiting[key]

    async def _until(self, claim: Claim, waiter: asyncio.Event, seconds: float) -> Claim:
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + seconds
        key = claim.swarm_id, claim.task_id, claim.claim_id

        def read(tx: Transaction) -> Claim | None:
            return tx.claim(*key)

        while True:
            waiter.clear()
            current = await self._store.read(read)
            claim = current or claim._replace(state="void")
            seconds_left = ends_at - loop.time()
            if claim.state in _ENDED or seconds_left <= 0 or self._hub.closed:
                return claim
            try:
                async with asyncio.timeout(seconds_left):
                    await waiter.wait()
            except TimeoutError:
                pass

    async def outcome(self, claim: Claim, wait_ms: int) -> CompletionAnswer:
        """Accepted or still verifying. Raises ContractViolations for a refusal."""
        claim = await self.wait_for_end(claim, wait_ms)
        if claim.state == "void":
            raise NotHeld(claim.task_id, None)
        if claim.state == "refused":
            now_ms = self._clock()
            await self._store.write(
                lambda tx: tx.mark_verdict_delivered(claim, now_ms), claim.swarm_id
            )
            raise _refused(claim)
        if claim.state != "accepted":
            return CompletionAnswer(
                success=False,
                bead_id=claim.task_id,
                status="verifying",
                claim_id=claim.claim_id,
                hint=VERIFYING_HINT,
            )
        verdict = json.loads(claim.verdict or "{}")
        return CompletionAnswer(
            success=True,
            bead_id=claim.task_id,
            status="accepted",
            claim_id=claim.claim_id,
            commit=verdict.get("commit"),
            receipt_id=receipt_id_of(
                claim.swarm_id, claim.task_id, claim.claim_id, claim.asked_at_ms
            ),
            checks=verdict.get("checks"),
        )


def _refused(claim: Claim) -> ContractViolations:
    verdict: dict[str, Any] = json.loads(claim.verdict or "{}")
    violations: list[dict[str, Any]] = verdict.get("violations", [])
    hints = list(dict.fromkeys(violation["hint"] for violation in violations))
    named = "\n".join(f"- {violation['message']}" for violation in violations)
    return ContractViolations(
        f"Contract violations detected:\n{named}",
        field="bead_id",
        hint="; ".join(hints[:5]),
        facts={
            "claim_id": claim.claim_id,
            "contract_version": claim.contract_version,
            "violations": violations,
            "checks": verdict.get("checks", []),
        },
    )
