"""Asks CI about merges that landed in repos of the policy, and unlocks the repos that passed."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

from shiftboss.coordinator.clock import Clock
from shiftboss.coordinator.duties.timer import Timer
from shiftboss.coordinator.event_hub import Hub
from shiftboss.coordinator.runs import landings
from shiftboss.evidence.port import Evidence
from shiftboss.protocol.events import EventKind
from shiftboss.store.port import Transactions

CHECK_EVERY_MS = 15_000


class LandingWatcher(Timer):
    """The repo locks say what to check, so a restart loses nothing."""

    # It reads repositories, some of them large.
    stuck_seconds: ClassVar[float] = 1800.0

    def __init__(self, store: Transactions, clock: Clock, hub: Hub, evidence: Evidence) -> None:
        super().__init__(store, clock, hub, EventKind.TASK_LANDED)
        self._evidence = evidence

    async def act(self, now_ms: int) -> None:
        for landing, handoff in await self.store.read(landings.still_locked):
            landed = landing.landed_commit or landing.commit_sha
            ci = await landings.ci_of_landed(self._evidence, handoff, landing.commit_sha, landed)
            update = partial(
                landings.update_ci, seen=landing, handoff=handoff, ci=ci, now_ms=now_ms
            )
            await self.store.write(update, landing.swarm_id)

    async def next_at_ms(self) -> int | None:
        waiting = await self.store.read(landings.still_locked)
        return self.clock() + CHECK_EVERY_MS if waiting else None
