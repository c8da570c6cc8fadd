"""The calls of verifiers: take a claim, renew it, record a verdict."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any, TypeVar

from shiftboss.coordinator.claims import claim_passes, claims, open_claims, verdicts
from shiftboss.coordinator.clock import Clock
from shiftboss.coordinator.deployment.admission import Admissions
from shiftboss.coordinator.deployment.keys import signed_in
from shiftboss.coordinator.event_hub import Hub
from shiftboss.coordinator.idempotency import write_once
from shiftboss.errors import (
    InvalidRequest,
)
from shiftboss.evidence.port import Evidence
from shiftboss.protocol.claims.claim_requests import (
    ClaimList,
    ListClaimsRequest,
    RenewClaimAnswer,
    RenewClaimRequest,
    RetryClaimAnswer,
    RetryClaimRequest,
    TakeClaimAnswer,
    TakeClaimRequest,
    VerdictAnswer,
    VerdictRequest,
)
from shiftboss.protocol.claims.verdicts import Verdict, VerificationJob
from shiftboss.protocol.events import EventKind
from shiftboss.protocol.handoff_requests import (
    WAIT_MS_MAX,
)
from shiftboss.rules.access.actors import verifier_name
from shiftboss.rules.claims.claims import Claim, is_object_name
from shiftboss.store.current_actor import CURRENT_ACTOR
from shiftboss.store.port import Store, Transaction

# The events that make a claim ready to be taken.
TAKABLE = (EventKind.CLAIM_MADE, EventKind.CLAIM_PASSED, EventKind.CLAIM_RETRIED)
# How often it is stored that a verifier is there.
NOTE_VERIFIER_MS = 20_000
VERIFIERS_NOTED_MAX = 1000

V = TypeVar("V", TakeClaimRequest, RenewClaimRequest, VerdictRequest)


class ClaimService:
    """Verifiers ask for claims, on this server and on other machines."""

    def __init__(
        self, store: Store, clock: Clock, hub: Hub, evidence: Evidence, admissions: Admissions
    ) -> None:
        self._store = store
        self._clock = clock
        self._hub = hub
        self._evidence = evidence
        self._admissions = admissions
        self._takers: set[asyncio.Event] = set()
        # When each verifier was last noted: they ask more often than that has to be stored.
        self._noted_ms: dict[str, int] = {}
        for kind in TAKABLE:
            hub.listen(kind, lambda _event: self._wake_takers())
        hub.on_close(self._wake_takers)

    def _wake_takers(self) -> None:
        for taker in self._takers:
            taker.set()

    async def take_claim(
        self, request: TakeClaimRequest, _key: str | None = None
    ) -> TakeClaimAnswer:
        """Wait until there is a claim to verify, or until the timeout."""
        request = _by_token(request)
        taker = asyncio.Event()
        self._takers.add(taker)
        try:
            return TakeClaimAnswer(job=await self._take(request, taker))
        finally:
            self._takers.discard(taker)

    async def _take(
        self, request: TakeClaimRequest, taker: asyncio.Event
    ) -> VerificationJob | None:
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + min(request.wait_ms, WAIT_MS_MAX) / 1000
        while True:
            taker.clear()
            job = await self.take_for(request.verifier)
            seconds_left = ends_at - loop.time()
            if job is not None or seconds_left <= 0 or self._hub.closed:
                return job
            try:
                seconds_to_next = await self._seconds_to_next(request.verifier)
                async with asyncio.timeout(min(seconds_left, seconds_to_next)):
                    await taker.wait()
            except TimeoutError:
                pass
            self._admissions.check()

    async def _seconds_to_next(self, verifier: str) -> float:
        """Until the next claim can be taken. No event tells that a postponed claim is due, or that
        a verifier is lost."""
        at_ms = await self._store.read(lambda tx: tx.next_claim_at_ms(verifier))
        return float("inf") if at_ms is None else max(at_ms - self._clock(), 0) / 1000

    async def take_for(self, verifier: str) -> VerificationJob | None:
        """Read first, then take: a use case needs the swarm before it starts."""
        await self._note(verifier)
        while True:
            now_ms = self._clock()
            claim = await self._store.read(partial(_next_claim, now_ms=now_ms, verifier=verifier))
            if claim is None:
                return None
            take = partial(claims.take, seen=claim, verifier=verifier, now_ms=now_ms)
            job = await self._store.write(take, claim.swarm_id)
            if job is not None:
                return job

    async def _note(self, verifier: str) -> None:
        now_ms = self._clock()
        if now_ms - self._noted_ms.get(verifier, -NOTE_VERIFIER_MS) < NOTE_VERIFIER_MS:
            return
        await self._store.write(lambda tx: claim_passes.note_verifier(tx, verifier, now_ms), "")
        if len(self._noted_ms) >= VERIFIERS_NOTED_MAX:
            self._noted_ms.clear()
        self._noted_ms[verifier] = now_ms

    async def list_claims(self, request: ListClaimsRequest, _key: str | None = None) -> ClaimList:
        now_ms, reader = self._clock(), CURRENT_ACTOR.get()
        if reader.swarm_id is not None:
            request = request.model_copy(update={"swarm_id": reader.swarm_id, "all_swarms": False})
        return await self._store.read(lambda tx: open_claims.listing(tx, request, now_ms))

    async def retry_claim(
        self, request: RetryClaimRequest, key: str | None = None
    ) -> RetryClaimAnswer:
        return await write_once(self._store, self._clock, claim_passes.retry_claim, request, key)

    async def renew_claim(
        self, request: RenewClaimRequest, _key: str | None = None
    ) -> RenewClaimAnswer:
        request = _by_token(request)
        await self._note(request.verifier)
        now_ms = self._clock()
        held = await self._store.write(
            lambda tx: claims.renew(
                tx, request.swarm_id, request.bead_id, request.claim_id, request.verifier, now_ms
            ),
            request.swarm_id,
        )
        return RenewClaimAnswer(held=held)

    async def report_verdict(
        self, request: VerdictRequest, _key: str | None = None
    ) -> VerdictAnswer:
        request = _by_token(request)
        key = (request.swarm_id, request.bead_id, request.claim_id)
        now_ms = self._clock()
        if request.verdict is not None:
            verdict = _parse_verdict(request.verdict)
            state = await self._store.write(
                lambda tx: verdicts.settle(
                    tx,
                    key,
                    request.verifier,
                    verdict,
                    partial(signed_in, tx, evidence=self._evidence, now_ms=now_ms),
                    now_ms,
                ),
                request.swarm_id,
            )
        else:
            state = await self._store.write(
                lambda tx: _without_verdict(tx, key, request, now_ms), request.swarm_id
            )
        if request.released:
            self._noted_ms.pop(request.verifier, None)
        return VerdictAnswer(recorded=state != "void", state=state)


def _by_token(request: V) -> V:
    """With the name under which the verifier is recorded."""
    name = verifier_name(CURRENT_ACTOR.get(), request.verifier)
    return request if name == request.verifier else request.model_copy(update={"verifier": name})


def _next_claim(tx: Transaction, now_ms: int, verifier: str) -> Claim | None:
    return tx.next_claim(now_ms, verifier)


def _without_verdict(
    tx: Transaction, key: tuple[str, str, int], request: VerdictRequest, now_ms: int
) -> str:
    if request.released:
        return verdicts.release(tx, key, request.verifier, now_ms)
    if request.unable is not None:
        return verdicts.pass_on(tx, key, request.verifier, request.unable, now_ms)
    failure = request.failure or "no verdict"
    return verdicts.put_off(tx, key, request.verifier, failure, now_ms)


def _parse_verdict(data: dict[str, Any]) -> Verdict:
    """Refuse a verdict that could not be signed later."""
    try:
        verdict = Verdict.model_validate(data)
    except ValueError as error:
        raise InvalidRequest(f"verdict: {error}", field="verdict") from None
    failed = any(check.outcome == "failed" for check in verdict.checks) or verdict.violations
    has_hashes = all(is_object_name(name) for name in (verdict.commit, verdict.tree))
    if verdict.accepted and (failed or not has_hashes):
        raise InvalidRequest(
            "verdict: an accepted one has the full hashes of commit and tree, and no violation",
            field="verdict",
        )
    return verdict
