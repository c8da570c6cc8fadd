"""Swarms and their packets for the surfaces: each call is one use case."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable

from shiftboss.coordinator.claims.verdict_waiters import VerdictWaiters
from shiftboss.coordinator.clock import Clock
from shiftboss.coordinator.event_hub import Hub
from shiftboss.coordinator.swarms import error_reports, packets, swarms
from shiftboss.errors import VerificationPending
from shiftboss.protocol.events import Event
from shiftboss.protocol.handoff_requests import WAIT_MS_DEFAULT
from shiftboss.protocol.packets import (
    CompleteAnswer,
    CompleteRequest,
    ErrorAnswer,
    ErrorRequest,
    ProgressAnswer,
    ProgressRequest,
    RegisterAnswer,
    RegisterRequest,
)
from shiftboss.protocol.swarms import CreateSwarmRequest, SwarmList, SwarmStatus
from shiftboss.rules.tasks.retry import RetryPolicy
from shiftboss.rules.tasks.swarms import Swarm
from shiftboss.store.current_actor import CURRENT_ACTOR
from shiftboss.store.port import Store


class SwarmService:
    """Reports of packets take an optional idempotency key."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        hub: Hub,
        verdict_waiters: VerdictWaiters,
        retry_policy: RetryPolicy,
    ) -> None:
        self._store = store
        self._clock = clock
        self._hub = hub
        self._verdict_waiters = verdict_waiters
        self._retry_policy = retry_policy

    async def create_swarm(self, request: CreateSwarmRequest) -> Swarm:
        swarm_id = request.swarm_id or f"swarm-{secrets.token_hex(6)}"
        now_ms = self._clock()
        return await self._store.write(
            lambda tx: swarms.create(tx, swarm_id, request, now_ms), swarm_id
        )

    def register(
        self, swarm_id: str, request: RegisterRequest, key: str | None = None
    ) -> Awaitable[RegisterAnswer]:
        now_ms = self._clock()
        return self._store.write(
            lambda tx: packets.register(tx, swarm_id, request, key, now_ms), swarm_id
        )

    def progress(
        self, swarm_id: str, request: ProgressRequest, key: str | None = None
    ) -> Awaitable[ProgressAnswer]:
        now_ms = self._clock()
        return self._store.write(
            lambda tx: packets.progress(tx, swarm_id, request, key, now_ms), swarm_id
        )

    async def complete(
        self, swarm_id: str, request: CompleteRequest, _key: str | None = None
    ) -> CompleteAnswer:
        """The key is not needed: a repeated completion is recognised by its content."""
        now_ms = self._clock()
        result = await self._store.write(
            lambda tx: packets.complete(tx, swarm_id, request, now_ms), swarm_id
        )
        if isinstance(result, CompleteAnswer):
            return result
        # A packet with a handoff: once its claim is accepted, the repeated request has its answer.
        outcome = await self._verdict_waiters.outcome(result, WAIT_MS_DEFAULT)
        if not outcome.success:
            raise VerificationPending(result.task_id)
        return await self.complete(swarm_id, request)

    def error(
        self, swarm_id: str, request: ErrorRequest, key: str | None = None
    ) -> Awaitable[ErrorAnswer]:
        now_ms = self._clock()
        policy = self._retry_policy
        return self._store.write(
            lambda tx: error_reports.error(tx, swarm_id, request, key, policy, now_ms), swarm_id
        )

    async def status(self, swarm_id: str) -> SwarmStatus:
        polling = self._hub.polling(swarm_id)
        return await self._store.read(lambda tx: swarms.status(tx, swarm_id, polling))

    async def list_swarms(self, before: str | None, limit: int) -> SwarmList:
        polling = self._hub.polling_workers()
        only = CURRENT_ACTOR.get().swarm_id
        if only is not None:
            return await self._store.read(lambda tx: swarms.listing_of(tx, only, polling))
        return await self._store.read(lambda tx: swarms.listing(tx, before, limit, polling))

    async def events_after(self, swarm_id: str, event_id: int, limit: int) -> list[Event]:
        return await self._store.read(lambda tx: swarms.events_after(tx, swarm_id, event_id, limit))

    async def existing_event_id(self, swarm_id: str, event_id: int) -> int:
        return await self._store.read(lambda tx: swarms.existing_event_id(tx, swarm_id, event_id))
