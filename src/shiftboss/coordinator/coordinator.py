"""The coordinator: use cases on a store, with a clock and a hub. Every surface calls this."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable
from contextlib import AsyncExitStack
from functools import partial
from typing import ClassVar, Protocol

from shiftboss.coordinator.bus.service import BusService
from shiftboss.coordinator.bus.task_source import FindTask
from shiftboss.coordinator.claims.verdict_waiters import VerdictWaiters
from shiftboss.coordinator.clock import Clock, system_clock
from shiftboss.coordinator.contract.context import ContextService
from shiftboss.coordinator.contract.policy import ActivePolicy
from shiftboss.coordinator.contract.service import ContractService
from shiftboss.coordinator.contract.webhooks import Webhooks
from shiftboss.coordinator.duties.breakage_search import BreakageSearch
from shiftboss.coordinator.duties.ci_watcher import CiWatcher
from shiftboss.coordinator.duties.cleaner import Cleaner
from shiftboss.coordinator.duties.hold_expiry import HoldExpiry
from shiftboss.coordinator.duties.landing_watcher import LandingWatcher
from shiftboss.coordinator.duties.lease_reaper import LeaseReaper
from shiftboss.coordinator.duties.retry_scheduler import RetryScheduler
from shiftboss.coordinator.duties.timeout_ladder import Cascade, TimeoutLadder
from shiftboss.coordinator.duties.verification import Verification
from shiftboss.coordinator.evidence_port import Evidence, NoEvidence
from shiftboss.coordinator.handoffs.service import HandoffService
from shiftboss.coordinator.handoffs.spawn_checks import Spawning
from shiftboss.coordinator.hub import Hub
from shiftboss.coordinator.runs.service import RunService
from shiftboss.coordinator.swarms import error_reports, packets, swarms
from shiftboss.errors import StoreUnavailable, VerificationPending
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
from shiftboss.protocol.policy import Policy
from shiftboss.protocol.swarms import CreateSwarmRequest, SwarmList, SwarmStatus
from shiftboss.rules.tasks.retry import RetryPolicy
from shiftboss.rules.tasks.swarms import Swarm
from shiftboss.rules.tasks.tasks import GRACE_SECONDS
from shiftboss.store.port import Store


class Duty(Protocol):
    on_every_server: ClassVar[bool]

    async def run(self) -> None: ...


class Coordinator:
    def __init__(
        self,
        store: Store,
        evidence: Evidence | None = None,
        *,
        clock: Clock = system_clock,
        hub: Hub | None = None,
        retry_policy: RetryPolicy | None = None,
        retention_days: int = 30,
        find_task: FindTask | None = None,
        verifies: bool = True,
        policy: Policy | None = None,
        spawning: Spawning | None = None,
    ) -> None:
        """`verifies`: claims are verified in this process; else by verifiers that ask for them."""
        self.store = store
        self._evidence: Evidence = evidence or NoEvidence()
        self.hub = hub or Hub(is_alone=not store.shared)
        self.clock = clock
        self._retry_policy = retry_policy or RetryPolicy()
        lease_keeper = LeaseReaper(store, clock, self.hub)
        self._proofs = VerdictWaiters(store, clock, self.hub)
        self.bus = BusService(
            store, clock, self.hub, lease_keeper.expect_end, self._proofs, find_task
        )
        contracts = ActivePolicy(policy or Policy())
        self.handoffs = HandoffService(
            store,
            clock,
            self.hub,
            self._evidence,
            self._proofs,
            contracts,
            spawning or Spawning(),
        )
        self.contract = ContractService(store, clock, contracts, self._evidence, self._proofs)
        self.context = ContextService(store, contracts, self._evidence)
        self.running = RunService(store, clock, self._evidence)
        ci_watcher = CiWatcher(store, clock, self.hub, contracts, self._evidence)
        self.webhooks = Webhooks(store, clock, contracts, ci_watcher.wake)
        self._on_call = ci_watcher.wake
        self._duties: list[Duty] = [
            RetryScheduler(store, clock, self.hub),
            lease_keeper,
            HoldExpiry(store, clock, self.hub),
            LandingWatcher(store, clock, self.hub, self._evidence),
            Cleaner(store, clock, retention_days),
            ci_watcher,
            TimeoutLadder(store, clock, self.hub, contracts, self._evidence),
            Cascade(store, clock, self.hub, contracts),
            BreakageSearch(store, clock, self.hub, contracts, self._evidence),
        ]
        if verifies:
            name = f"{store.name}-{secrets.token_hex(4)}" if store.shared else "server"
            self._duties.append(
                Verification(store, clock, self.hub, self.handoffs, self._evidence, name)
            )
        self._exit = AsyncExitStack()

    async def start(self) -> None:
        await self.store.open(self.hub.publish, self.hub.recheck)
        self._exit.push_async_callback(self.store.close)
        self._exit.push_async_callback(self._evidence.close)
        await self._grant_grace()
        everywhere = [duty for duty in self._duties if duty.on_every_server]
        once = [duty for duty in self._duties if not duty.on_every_server]
        for doing in (
            _run_all(everywhere),
            self.store.lead(partial(_run_all, once), self._on_call),
        ):
            self._exit.push_async_callback(_stop, asyncio.create_task(doing))

    async def _grant_grace(self) -> None:
        """While no server was there, nobody could show a sign of life. Where another server was,
        it has ended the leases that ran out, and none is left to renew."""
        now_ms = self.clock()
        await self.store.write(
            lambda tx: tx.renew_expired_leases(now_ms, GRACE_SECONDS), partition=""
        )

    async def stop(self) -> None:
        """End the streams and the duties, finish the accepted writes, close the store."""
        self.hub.close()
        await self._exit.aclose()

    async def check_health(self) -> None:
        """Raises StoreUnavailable when the database cannot be read, or refused the last writes."""
        await self.store.read(lambda tx: tx.next_retry_at_ms())
        failing = self.store.failing()
        if failing is not None:
            raise StoreUnavailable(failing, hint="reports wait with their workers until it heals")

    async def create_swarm(self, request: CreateSwarmRequest) -> Swarm:
        swarm_id = request.swarm_id or f"swarm-{secrets.token_hex(6)}"
        now_ms = self.clock()
        return await self.store.write(
            lambda tx: swarms.create(tx, swarm_id, request, now_ms), swarm_id
        )

    def register(
        self, swarm_id: str, request: RegisterRequest, key: str | None = None
    ) -> Awaitable[RegisterAnswer]:
        now_ms = self.clock()
        return self.store.write(
            lambda tx: packets.register(tx, swarm_id, request, key, now_ms), swarm_id
        )

    def progress(
        self, swarm_id: str, request: ProgressRequest, key: str | None = None
    ) -> Awaitable[ProgressAnswer]:
        now_ms = self.clock()
        return self.store.write(
            lambda tx: packets.progress(tx, swarm_id, request, key, now_ms), swarm_id
        )

    async def complete(
        self, swarm_id: str, request: CompleteRequest, _key: str | None = None
    ) -> CompleteAnswer:
        """The key is not needed: a completion is known by its words."""
        now_ms = self.clock()
        made = await self.store.write(
            lambda tx: packets.complete(tx, swarm_id, request, now_ms), swarm_id
        )
        if isinstance(made, CompleteAnswer):
            return made
        # A packet with a handoff: when its claim is proven, the same words have their answer.
        proof = await self._proofs.outcome(made, WAIT_MS_DEFAULT)
        if not proof.success:
            raise VerificationPending(made.task_id)
        return await self.complete(swarm_id, request)

    def error(
        self, swarm_id: str, request: ErrorRequest, key: str | None = None
    ) -> Awaitable[ErrorAnswer]:
        now_ms = self.clock()
        policy = self._retry_policy
        return self.store.write(
            lambda tx: error_reports.error(tx, swarm_id, request, key, policy, now_ms), swarm_id
        )

    async def status(self, swarm_id: str) -> SwarmStatus:
        return await self.store.read(lambda tx: swarms.status(tx, swarm_id))

    async def swarms(self, before: str | None, limit: int) -> SwarmList:
        return await self.store.read(lambda tx: swarms.listing(tx, before, limit))

    async def events_after(self, swarm_id: str, event_id: int, limit: int) -> list[Event]:
        return await self.store.read(lambda tx: swarms.events_after(tx, swarm_id, event_id, limit))


async def _run_all(duties: list[Duty]) -> None:
    async with asyncio.TaskGroup() as group:
        for duty in duties:
            group.create_task(duty.run())


async def _stop(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
