"""Acts on attempts whose milestone takes too long, at the times that the policy sets."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import ClassVar

from shiftboss.coordinator.clock import Clock
from shiftboss.coordinator.contract import ci_restarts, timeout_ladder
from shiftboss.coordinator.contract.git_work import read_git_work
from shiftboss.coordinator.contract.policy import ActivePolicy
from shiftboss.coordinator.duties.timer import DUE_PER_ROUND_MAX, Timer, run_all
from shiftboss.coordinator.event_hub import Hub
from shiftboss.errors import ShiftbossError
from shiftboss.evidence.port import Evidence
from shiftboss.protocol.events import Event, EventKind
from shiftboss.rules.contract.records import ContractAttempt
from shiftboss.rules.handoffs.handoffs import Handoff
from shiftboss.store.port import Transactions
from shiftboss.system.log_subject import about

log = logging.getLogger(__name__)


class TimeoutWatcher(Timer):
    # It may ask a slow forge to restart runs.
    stuck_seconds: ClassVar[float] = 1800.0

    def __init__(
        self, store: Transactions, clock: Clock, hub: Hub, policy: ActivePolicy, evidence: Evidence
    ) -> None:
        super().__init__(
            store,
            clock,
            hub,
            EventKind.MILESTONE_REPORTED,
            EventKind.CI_FAILED,
            EventKind.CLAIM_REFUSED,
            EventKind.QUESTION_ASKED,
            EventKind.QUESTION_ANSWERED,
            EventKind.WORK_RESUMED,
        )
        hub.listen(EventKind.TASK_STARTED, self._on_task_started)
        self._policy = policy
        self._evidence = evidence

    def _on_task_started(self, _event: Event) -> None:
        """Only tasks on repos of the policy are timed."""
        if self._policy.settings.repos:
            self.wake()

    async def act(self, now_ms: int) -> None:
        due = await self.store.read(lambda tx: tx.due_attempts(now_ms, DUE_PER_ROUND_MAX))
        stuck = [attempt for attempt in due if "restart_ci" in await self._climb(attempt, now_ms)]
        await run_all(self._restart_ci(attempt) for attempt in stuck)

    async def _climb(self, seen: ContractAttempt, now_ms: int) -> list[str]:
        handoff = await self.store.read(lambda tx: tx.handoff(seen.swarm_id, seen.task_id))
        tip = await self._branch_tip(handoff)
        moved = handoff is not None and tip is not None and tip != seen.tip
        climb = partial(
            timeout_ladder.climb,
            policy=self._policy,
            seen=seen,
            tip=tip,
            work=await read_git_work(self._evidence, handoff, tip) if handoff and moved else None,
            now_ms=now_ms,
        )
        return await self.store.write(climb, seen.swarm_id)

    async def _restart_ci(self, seen: ContractAttempt) -> None:
        """Restart the CI as the ladder asked, and continue with the ladder when it is done."""
        request = await self.store.read(partial(ci_restarts.restart_request, seen=seen))
        if request is None:
            return
        with about(seen.swarm_id, seen.task_id, repo=request.demand.repo):
            refusal = await self._try_restart(request)
        now_ms = self.clock()
        settle = partial(
            ci_restarts.settle, seen=seen, sha=request.sha, refusal=refusal, now_ms=now_ms
        )
        if await self.store.write(settle, seen.swarm_id):
            await self._climb(seen, now_ms)

    async def _try_restart(self, request: ci_restarts.RestartRequest) -> str | None:
        """Restart the CI; why it was not restarted, or None."""
        try:
            async with asyncio.timeout(ci_restarts.RESTART_SECONDS):
                done = await self._evidence.restart_ci(request.demand, request.sha)
        except TimeoutError:
            return f"it took longer than {ci_restarts.RESTART_SECONDS:.0f} s"
        except ShiftbossError as error:
            return error.detail
        except Exception as error:
            log.exception("restarting the CI of %s failed", request.demand.repo)
            return f"internal error: {error!r}"
        return None if done else "the server cannot restart this CI"

    async def _branch_tip(self, handoff: Handoff | None) -> str | None:
        """The current commit of the task's branch; None if it is not known."""
        if handoff is None or handoff.branch is None:
            return None
        try:
            return await self._evidence.commit_of(handoff.repo, handoff.branch)
        except ShiftbossError:
            return None

    async def next_at_ms(self) -> int | None:
        return await self.store.read(lambda tx: tx.next_attempt_check_at_ms())
