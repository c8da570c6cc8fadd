"""Follows the CI of pushed commits: checks each when it is due, a few at once.

The worker may have left. A webhook makes a check due at once; otherwise the times in the store
apply, so a restart loses no commit.
"""

from __future__ import annotations

import asyncio
import logging
from typing import ClassVar

from shiftboss.coordinator.clock import Clock
from shiftboss.coordinator.contract import ci
from shiftboss.coordinator.contract.policy import ActivePolicy
from shiftboss.coordinator.duties.timer import Timer, run_all
from shiftboss.coordinator.event_hub import Hub
from shiftboss.errors import CiUnavailable, ShiftbossError
from shiftboss.evidence.port import Evidence
from shiftboss.protocol.ci import CiDemand
from shiftboss.protocol.events import EventKind
from shiftboss.rules.contract.records import Tracking
from shiftboss.store.port import Transactions
from shiftboss.system.log_subject import about

log = logging.getLogger(__name__)

AT_ONCE = 16
BATCH_MS = 250
DUE_MAX = 1000


class CiWatcher(Timer):
    # A thousand checks of a slow forge, a few at once, take a while.
    stuck_seconds: ClassVar[float] = 3600.0

    def __init__(
        self, store: Transactions, clock: Clock, hub: Hub, policy: ActivePolicy, evidence: Evidence
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
        await run_all(self._check(tracking) for tracking in due)

    async def next_at_ms(self) -> int | None:
        """A little after the first, so that checks that are due together run together."""
        at_ms = await self.store.read(lambda tx: tx.next_ci_check_at_ms())
        return None if at_ms is None else at_ms + BATCH_MS

    async def _check(self, seen: Tracking) -> None:
        with about(seen.swarm_id, seen.task_id, repo=seen.repo):
            await self._check_one(seen)

    async def _check_one(self, seen: Tracking) -> None:
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
                await self._record_failure(seen, error)
                return
            except Exception as error:
                # A bug that one commit triggers must not stop the others.
                log.exception("checking the CI of %s at %s failed", seen.repo, seen.sha)
                await self._record_failure(
                    seen,
                    CiUnavailable(
                        f"internal error: {error!r}", reason="answer", retry_after_seconds=60
                    ),
                )
                return
        now_ms = self.clock()
        await self.store.write(
            lambda tx: ci.record_report(tx, self._policy, seen, report, now_ms), seen.swarm_id
        )

    async def _record_failure(self, seen: Tracking, error: ShiftbossError) -> None:
        now_ms = self.clock()
        retry_after = error.facts.get("retry_after_seconds")
        retry_seconds = float(retry_after) if isinstance(retry_after, int | float) else 0.0
        limit = self._policy.settings.deadlock.api_errors
        await self.store.write(
            lambda tx: ci.record_unreachable(tx, seen, error.detail, retry_seconds, limit, now_ms),
            seen.swarm_id,
        )
