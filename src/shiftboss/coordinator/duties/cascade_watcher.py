"""Pauses work on repos whose upstream is red or whose chain is halted, and resumes it."""

from __future__ import annotations

from functools import partial

from shiftboss.coordinator.clock import Clock
from shiftboss.coordinator.contract import cascade
from shiftboss.coordinator.contract.policy import ActivePolicy
from shiftboss.coordinator.duties.timer import Timer
from shiftboss.coordinator.event_hub import Hub
from shiftboss.protocol.events import Event, EventKind
from shiftboss.store.port import Transactions


class CascadeWatcher(Timer):
    """Checks every repo lock in every swarm, so that the next start makes up for a crash."""

    def __init__(self, store: Transactions, clock: Clock, hub: Hub, policy: ActivePolicy) -> None:
        kinds = (
            EventKind.CLAIM_ACCEPTED,
            EventKind.CLAIM_REFUSED,
            EventKind.CI_FAILED,
            EventKind.CHAIN_HALTED,
            EventKind.REPO_LOCKED,
            EventKind.REPO_RELEASED,
            EventKind.TASK_STARTED,
        )
        super().__init__(store, clock, hub, *kinds)
        hub.listen(EventKind.HALT_LIFTED, self._on_halt_lifted)
        self._policy = policy
        self._halt_lifted = True

    def _on_waking_event(self, event: Event) -> None:
        if self._policy.settings.repos:
            super()._on_waking_event(event)

    def _on_halt_lifted(self, _event: Event) -> None:
        self._halt_lifted = True
        self.wake()

    async def act(self, now_ms: int) -> None:
        if not self._policy.settings.repos:
            return
        lifted, self._halt_lifted = self._halt_lifted, False
        for lock in await self.store.read(lambda tx: cascade.unsettled(tx, self._policy)):
            settle = partial(cascade.settle_pause, policy=self._policy, lock=lock, now_ms=now_ms)
            await self.store.write(settle, lock.swarm_id)
        if lifted:
            await self._hand_out(now_ms)

    async def _hand_out(self, now_ms: int) -> None:
        locks = await self.store.read(lambda tx: tx.repo_locks())
        for swarm_id in sorted({lock.swarm_id for lock in locks}):
            give = partial(cascade.hand_out, swarm_id=swarm_id, now_ms=now_ms)
            await self.store.write(give, swarm_id)

    async def next_at_ms(self) -> int | None:
        return None
