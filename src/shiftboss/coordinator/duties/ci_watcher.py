"""Follows the CI of pushed commits: one look at each when its time has come, a few at once.

The worker need not be there. A webhook makes a look due at once; the times in the store are the
safety net, so a restart forgets no commit.
"""

from __future__ import annotations

import asyncio
import logging

from shiftboss.coordinator.clock import Clock
from shiftboss.coordinator.contract import ci
from shiftboss.coordinator.contract.policy import ActivePolicy
from shiftboss.coordinator.duties.timer import Timer
from shiftboss.coordinator.hub import Hub
from shiftboss.errors import CiUnavailable, ShiftbossError
from shiftboss.evidence.port import Evidence
from shiftboss.protocol.ci import CiDemand
from shiftboss.protocol.events import EventKind
from shiftboss.rules.contract.records import Tracking
from shiftboss.store.port import Store

log = logging.getLogger(__name__)

AT_ONCE = 16
GATHER_MS = 250
DUE_MAX = 1000


class CiWatcher(Timer):
    def __init__(
        self, store: Store, clock: Clock, hub: Hub, policy: ActivePolicy, evidence: Evidence
    ) -> None:
        super().__init__(
            store,
            clock,
            hub,
            EventKind.MILESTONE_REPORTED,
            EventKind.TIMEOUT_STEP,
            EventKind.CLAIM_REFUSED,
        )
        self._policy = policy
        self._evidence = evidence
        self._turns = asyncio.Semaphore(AT_ONCE)

    async def act(self, now_ms: int) -> None:
        due = await self.store.read(lambda tx: tx.due_tracking(now_ms, DUE_MAX))
        if due:
            async with asyncio.TaskGroup() as group:
                for one in due:
                    group.create_task(self._look(one))

    async def next_at_ms(self) -> int | None:
        """A little later than the first: what is due until then is looked at together."""
        at_ms = await self.store.read(lambda tx: tx.next_look_at_ms())
        return None if at_ms is None else at_ms + GATHER_MS

    async def _look(self, seen: Tracking) -> None:
        async with self._turns:
            handoff = await self.store.read(lambda tx: tx.handoff(seen.swarm_id, seen.task_id))
            if handoff is None or handoff.ci is None:
                await self.store.write(
                    lambda tx: tx.drop_tracking(seen.swarm_id, seen.task_id), seen.swarm_id
                )
                return
            demand = CiDemand.model_validate_json(handoff.ci)
            try:
                report = await self._evidence.ci_report(demand, seen.sha)
            except ShiftbossError as error:
                await self._could_not_look(seen, error)
                return
            except Exception as error:
                # One commit that we make a mistake about must not stop the others.
                log.exception("the CI of %s at %s could not be looked at", seen.repo, seen.sha)
                await self._could_not_look(
                    seen,
                    CiUnavailable(
                        f"a mistake of ours: {error!r}", reason="answer", retry_after_seconds=60
                    ),
                )
                return
        now_ms = self.clock()
        await self.store.write(
            lambda tx: ci.looked(tx, self._policy, seen, report, now_ms), seen.swarm_id
        )

    async def _could_not_look(self, seen: Tracking, error: ShiftbossError) -> None:
        now_ms = self.clock()
        stated = error.facts.get("retry_after_seconds")
        again = float(stated) if isinstance(stated, int | float) else 0.0
        limit = self._policy.settings.deadlock.api_errors
        await self.store.write(
            lambda tx: ci.could_not_look(tx, seen, error.detail, again, limit, now_ms),
            seen.swarm_id,
        )
