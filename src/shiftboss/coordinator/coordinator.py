"""The coordinator: the services, the hub and the duties on one store. Every surface calls it."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Iterable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from shiftboss.coordinator.after_commit.registry import EFFECTS
from shiftboss.coordinator.after_commit.runner import AfterCommit, Effect
from shiftboss.coordinator.board.service import BoardService
from shiftboss.coordinator.bus.service import BusService
from shiftboss.coordinator.bus.task_source import FindTask
from shiftboss.coordinator.claims.receipts import ReceiptService
from shiftboss.coordinator.claims.service import ClaimService
from shiftboss.coordinator.claims.verdict_waiters import VerdictWaiters
from shiftboss.coordinator.clock import TOLD_NS, Clock, MachineClocks, ServerClock
from shiftboss.coordinator.contract.context import ContextService
from shiftboss.coordinator.contract.policy import ActivePolicy, policy_hash
from shiftboss.coordinator.contract.service import ContractService
from shiftboss.coordinator.contract.webhooks import Webhooks
from shiftboss.coordinator.deployment.admission import Admissions
from shiftboss.coordinator.deployment.database_clock import DatabaseClock
from shiftboss.coordinator.deployment.forge_checks import ForgeCheckService
from shiftboss.coordinator.deployment.keys import KeyService
from shiftboss.coordinator.deployment.policies import PolicyService
from shiftboss.coordinator.deployment.presence import Presence
from shiftboss.coordinator.deployment.service import DeploymentService
from shiftboss.coordinator.deployment.sessions import SessionService
from shiftboss.coordinator.deployment.shared_settings import SharedSettings
from shiftboss.coordinator.deployment.token_service import TokenService
from shiftboss.coordinator.duties.breakage_search import BreakageSearch
from shiftboss.coordinator.duties.cascade_watcher import CascadeWatcher
from shiftboss.coordinator.duties.ci_watcher import CiWatcher
from shiftboss.coordinator.duties.claim_watcher import ClaimWatcher
from shiftboss.coordinator.duties.cleaner import Cleaner
from shiftboss.coordinator.duties.hold_expiry import HoldExpiry
from shiftboss.coordinator.duties.landing_watcher import LandingWatcher
from shiftboss.coordinator.duties.lease_reaper import LeaseReaper
from shiftboss.coordinator.duties.retry_scheduler import RetryScheduler
from shiftboss.coordinator.duties.supervision import Duty, DutyGroup
from shiftboss.coordinator.duties.suspend_detection import SuspendDetector
from shiftboss.coordinator.duties.swarm_completion import SwarmCompletion
from shiftboss.coordinator.duties.timeout_watcher import TimeoutWatcher
from shiftboss.coordinator.duties.timer import Timer
from shiftboss.coordinator.duties.trace_export import SpanSink, TraceExport
from shiftboss.coordinator.duties.verification import Verification
from shiftboss.coordinator.event_hub import Hub
from shiftboss.coordinator.handoffs.service import HandoffService
from shiftboss.coordinator.handoffs.spawn_checks import SpawnPolicy
from shiftboss.coordinator.health import Health
from shiftboss.coordinator.history.service import HistoryService
from shiftboss.coordinator.notifications.active_channels import ActiveChannels
from shiftboss.coordinator.notifications.service import NotificationService
from shiftboss.coordinator.runs.service import RunService
from shiftboss.coordinator.swarms.service import SwarmService
from shiftboss.defaults import CLOCK_SKEW_MAX_SECONDS
from shiftboss.evidence.port import Evidence, NoEvidence
from shiftboss.notifications.settings_source import SettingsSource
from shiftboss.protocol.policy import Policy
from shiftboss.rules.deployment.records import DeploymentServer
from shiftboss.rules.deployment.servers import polling_at
from shiftboss.rules.tasks.leases import GRACE_SECONDS
from shiftboss.rules.tasks.retry import RetryPolicy
from shiftboss.store.leader_store import LeaderStore
from shiftboss.store.port import Store
from shiftboss.system.elapsed import elapsed_seconds

log = logging.getLogger(__name__)


class Coordinator:
    """The composition root: builds the services and the duties, starts and stops them."""

    def __init__(
        self,
        store: Store,
        evidence: Evidence | None = None,
        *,
        clock: Clock | None = None,
        machine: MachineClocks | None = None,
        clock_skew_max_seconds: float = CLOCK_SKEW_MAX_SECONDS,
        elapsed: Callable[[], float] = elapsed_seconds,
        hub: Hub | None = None,
        retry_policy: RetryPolicy | None = None,
        retention_days: int = 30,
        find_task: FindTask | None = None,
        verifies: bool = True,
        policy: Policy | None = None,
        policy_file: Path | None = None,
        spawning: SpawnPolicy | None = None,
        effects: Iterable[Effect] = EFFECTS,
        notify: SettingsSource | None = None,
        state_folder: Path | None = None,
        name: str | None = None,
        spans: SpanSink | None = None,
    ) -> None:
        """Without a `clock`, the time is that of the database, if servers share it, else that of
        the `machine`. `elapsed` measures time, in seconds. `verifies`: this process verifies the
        claims; else verifiers ask for them. `policy` is in force whatever is stored; without it,
        it is the stored one, or that of the `policy_file`. `notify` has the channels of
        notifications; without it, no notifications are sent. In the `state_folder`, the runs of
        this machine keep what their agents print. `name` is that of this server, where several
        share the store; one of its own if nothing is given. `spans` gets those of tasks, if traces
        are on."""
        self.store = store
        machine = machine or MachineClocks()
        self.database_clock = (
            DatabaseClock(store, machine, clock_skew_max_seconds) if clock is None else None
        )
        self.clock = clock or ServerClock(*machine)
        self.hub = hub or Hub(is_alone=not store.shared)
        self.evidence = evidence or NoEvidence()
        self.settings = SharedSettings()
        self.admissions = Admissions()
        self._leading = LeaderStore(store)
        self._policy = ActivePolicy(policy or Policy(), is_shared=store.shared and policy is None)
        self.policies = PolicyService(
            store, self.clock, self.settings, self._policy, policy_file, self._on_new_policy
        )
        if policy is None:
            self.settings.add(self.policies.load)
        self._verifier = _verifier_name(store, name) if verifies else None
        self._verdict_waiters = VerdictWaiters(store, self.clock, self.hub)
        lease_reaper = LeaseReaper(store, self.clock, self.hub, SuspendDetector(elapsed))
        self._ci_watcher = CiWatcher(
            self._leading, self.clock, self.hub, self._policy, self.evidence
        )
        self._swarm_completion = SwarmCompletion(store, self.clock, self.hub, elapsed)
        self.after_commit = AfterCommit(self._leading, self.hub, effects, self._leading.leads)
        self.traces = self._trace_export(spans)
        retry_policy, spawning = retry_policy or RetryPolicy(), spawning or SpawnPolicy()
        self._make_services(lease_reaper, retry_policy, spawning, find_task)
        self._make_server_services(state_folder, notify)
        self._supervise(self._duties(lease_reaper, retention_days), elapsed)
        self._exit = AsyncExitStack()

    def _trace_export(self, spans: SpanSink | None) -> TraceExport | None:
        """None without a place to send them to."""
        return None if spans is None else TraceExport(self._leading, self.clock, self.hub, spans)

    def _make_services(
        self,
        lease_reaper: LeaseReaper,
        retry_policy: RetryPolicy,
        spawning: SpawnPolicy,
        find_task: FindTask | None,
    ) -> None:
        """The services for swarms, workers and verifiers."""
        store, clock, hub, evidence = self.store, self.clock, self.hub, self.evidence
        policy, verdict_waiters = self._policy, self._verdict_waiters
        self.board = BoardService(store, clock, hub)
        self.swarms = SwarmService(store, clock, hub, verdict_waiters, retry_policy)
        self.bus = BusService(
            store,
            clock,
            hub,
            lease_reaper.expect_end,
            verdict_waiters,
            retry_policy,
            self.admissions,
            find_task,
            everybody_reopens=spawning.open_to_all,
            on_step=self.board.changes.note_heartbeat,
        )
        self.handoffs = HandoffService(store, clock, evidence, verdict_waiters, policy, spawning)
        self.claims = ClaimService(store, clock, hub, evidence, self.admissions)
        self.receipts = ReceiptService(store, evidence)
        self.keys = KeyService(store, clock, hub, evidence, self.settings)
        self.contract = ContractService(store, clock, policy, evidence, verdict_waiters)
        self.context = ContextService(store, policy, evidence)
        self.runs = RunService(store, clock, evidence, spawning, self.settings)

    def _make_server_services(
        self, state_folder: Path | None, notify: SettingsSource | None
    ) -> None:
        """The services for operators, forges and the other servers of the database."""
        store, clock, hub, evidence = self.store, self.clock, self.hub, self.evidence
        self.history = HistoryService(store, evidence, state_folder)
        self.tokens = TokenService(store, clock, self.settings)
        self.sessions = SessionService(store, clock, self.settings)
        self.webhooks = Webhooks(store, clock, self._policy, self._ci_watcher.wake)
        self.forge_checks = ForgeCheckService(self._policy, evidence)
        self.presence = Presence(store, clock)
        channels = ActiveChannels(notify, lambda: self.presence.address, clock)
        self.notifications = NotificationService(store, self._leading, clock, hub, channels)
        self.health = Health(
            store,
            clock,
            self.database_clock,
            evidence,
            self.after_commit,
            self.policies,
            self._policy,
        )

    def _duties(self, lease_reaper: LeaseReaper, retention_days: int) -> list[Duty]:
        store, clock, hub, evidence = self.store, self.clock, self.hub, self.evidence
        leading, policy = self._leading, self._policy
        duties: list[Duty] = [
            self.presence,
            RetryScheduler(leading, clock, hub),
            lease_reaper,
            HoldExpiry(leading, clock, hub),
            LandingWatcher(leading, clock, hub, evidence),
            ClaimWatcher(leading, clock, hub),
            Cleaner(leading, clock, retention_days, self.settings.changed),
            self._ci_watcher,
            TimeoutWatcher(leading, clock, hub, policy, evidence),
            CascadeWatcher(leading, clock, hub, policy),
            BreakageSearch(leading, clock, hub, policy, evidence),
            self._swarm_completion,
            self.after_commit,
            self.notifications.notifier,
        ]
        if self.traces is not None:
            duties.append(self.traces)
        if store.shared and self.database_clock is not None:
            duties.append(self.database_clock)
        if self._verifier is not None:
            duties.append(Verification(store, clock, hub, self.claims, evidence, self._verifier))
        return duties

    def _supervise(self, duties: list[Duty], elapsed: Callable[[], float]) -> None:
        """Sort the duties into those of every server and those of the leader; tell the other
        servers and the operator about them."""
        self.everywhere = DutyGroup([duty for duty in duties if duty.on_every_server], elapsed)
        self.on_leader = DutyGroup([duty for duty in duties if not duty.on_every_server], elapsed)
        self.deployment = DeploymentService(
            self.store,
            self.clock,
            self.hub,
            self.presence,
            self.keys,
            self.health.check,
            (self.everywhere, self.on_leader),
        )
        self._tell_others()
        self._watch_readiness()

    def _tell_others(self) -> None:
        """The row of this server, for the others on the database."""
        self.presence.facts |= {
            "schema": lambda: self.store.schema_version,
            "verifies": lambda: self._verifier is not None,
            "key_id": lambda: self.keys.own_key_id or None,
            "policy": self._policy_sha256,
            "webhooks": self.webhooks.last_seen.by_name,
            "clock_skew_ms": lambda: self.clock_skew_ms,
            # The only server on a database has no other to inform.
            "polling": lambda: self.hub.polling_here() if self.store.shared else None,
        }
        self.presence.on_seen = self._note_polling
        # The last one: it tells what the others have read.
        self.settings.add(self.presence.renew_if_changed)

    def _watch_readiness(self) -> None:
        health = self.health
        self.deployment.not_ready |= {
            "clock": health.clock_problem,
            "policy": health.policy_problem,
        }
        self.deployment.degraded |= {
            "evidence": health.evidence_problem,
            "effects": health.effects_problem,
            "write_ahead_log": health.log_problem,
        }
        self.deployment.degraded_in_store.append(self.notifications.warning)
        self.deployment.credentials = health.credential_lines

    async def start(self) -> None:
        await self._open()
        await self.policies.put_file()
        await self.presence.join()
        self._exit.push_async_callback(self.presence.leave)
        await self.bus.waiting_polls.start()
        await self._grant_grace()
        # Where servers share a database, another one takes over what has failed here.
        on_leader = self.on_leader.run if self.store.shared else self.on_leader.run_for_ever
        for running in (
            self.everywhere.run_for_ever(),
            self.store.lead(on_leader, self._ci_watcher.wake),
        ):
            self._exit.push_async_callback(_stop, asyncio.create_task(running))

    async def start_offline(self) -> None:
        """For one or two requests: nothing runs in the background, and no lease is renewed."""
        self.hub.is_offline = True
        await self._open()
        await self.policies.use_file()

    async def _open(self) -> None:
        await self.store.open(
            self.hub.publish, self._look_for_missed_events, self.hub, self.settings.changed
        )
        self._exit.push_async_callback(self.store.close)
        self._exit.push_async_callback(self.settings.stop)
        self._exit.push_async_callback(self.evidence.close)
        self._exit.push_async_callback(self.notifications.channels.close)
        self._exit.push_async_callback(self._flush_notifications)
        self._exit.push_async_callback(self._flush_traces)
        self._exit.push_async_callback(self._swarm_completion.settle_now)
        await self._set_clock()
        await self.settings.read()
        await self.notifications.channels.start()

    async def _flush_notifications(self) -> None:
        """Where servers share a database, another one sends them."""
        if not self.store.shared and not self.hub.is_offline:
            await self.notifications.notifier.flush()

    async def _flush_traces(self) -> None:
        if self.traces is None:
            return
        if not self.store.shared and not self.hub.is_offline:
            await self.traces.flush()
        self.traces.close()

    async def _set_clock(self) -> None:
        """All servers on a database go by its clock, even if what is stored is later: a server that
        continued after that would end the leases of the others. The clock of a single machine may
        have been set back since the last event."""
        if not isinstance(self.clock, ServerClock):
            return
        latest_ms = await self.store.read(lambda tx: tx.latest_time_ms()) or 0
        if self.database_clock is None or not await self.database_clock.start():
            self.clock.continue_after(latest_ms)
            return
        self.clock.follow(self.database_clock, "the database's clock")
        ahead_ms = latest_ms - self.clock()
        if ahead_ms * 1_000_000 > TOLD_NS:
            log.warning(
                "stored times are up to %.0f s ahead of the database's clock: a server's clock "
                "was wrong, or the database's was set back. Older leases last that much longer",
                ahead_ms / 1000,
            )

    @property
    def clock_skew_ms(self) -> int | None:
        """How far the clock of this machine is ahead of the database's; None if servers do not
        share the database."""
        return None if self.database_clock is None else self.database_clock.skew_ms

    def _on_new_policy(self) -> None:
        """Its limits may make something due."""
        for duty in (*self.everywhere.duties, *self.on_leader.duties):
            if isinstance(duty, Timer):
                duty.wake()

    def _note_polling(self, others: Sequence[DeploymentServer]) -> None:
        self.hub.polling_elsewhere = polling_at(others)

    def _policy_sha256(self) -> str:
        stored = self.policies.in_force
        return policy_hash(self._policy.settings) if stored is None else stored.sha256

    def _look_for_missed_events(self) -> None:
        self.bus.waiting_polls.on_gap()
        self.hub.recheck()
        self.after_commit.catch_up()
        self.notifications.notifier.catch_up()
        if self.traces is not None:
            self.traces.catch_up()
        self.board.changes.reload()
        self._swarm_completion.catch_up()

    async def _grant_grace(self) -> None:
        """Renew the leases that ran out while no server was up: no worker could send a heartbeat.
        If another server was up, it has ended the expired ones and none is left to renew."""
        now_ms = self.clock()
        await self.store.write(
            lambda tx: tx.renew_expired_leases(now_ms, GRACE_SECONDS), partition=""
        )

    async def stop(self) -> None:
        """End the streams and the duties, finish the accepted writes, close the store."""
        self.hub.close()
        await self._exit.aclose()

    @property
    def active_policy(self) -> Policy:
        return self._policy.settings


async def _stop(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def _verifier_name(store: Store, server: str | None) -> str:
    """Servers that share a store tell each other's claims apart."""
    if not store.shared:
        return "server"
    return server or f"{store.name}-{secrets.token_hex(4)}"
