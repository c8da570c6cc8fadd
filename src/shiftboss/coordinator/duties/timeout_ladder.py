"""Looks at attempts whose milestone takes long, at the times that the contract names."""

from __future__ import annotations

import asyncio
import logging
from functools import partial

from shiftboss.coordinator.clock import Clock
from shiftboss.coordinator.contract import cascade, ci_restarts, timeout_ladder
from shiftboss.coordinator.contract.policy import ActivePolicy
from shiftboss.coordinator.duties.timer import DUE_PER_ROUND_MAX, Timer
from shiftboss.coordinator.hub import Hub
from shiftboss.errors import ShiftbossError
from shiftboss.evidence.port import Evidence
from shiftboss.protocol.events import Event, EventKind
from shiftboss.rules.contract.records import ContractAttempt
from shiftboss.store.port import Store

log = logging.getLogger(__name__)


class TimeoutLadder(Timer):
    def __init__(
        self, store: Store, clock: Clock, hub: Hub, policy: ActivePolicy, evidence: Evidence
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
            # Only tasks of the policy's repos are timed; without any, nobody has to look.
            *([EventKind.TASK_STARTED] if policy.settings.repos else []),
        )
        self._policy = policy
        self._evidence = evidence

    async def act(self, now_ms: int) -> None:
        due = await self.store.read(lambda tx: tx.due_attempts(now_ms, DUE_PER_ROUND_MAX))
        stuck = [one for one in due if "restart_ci" in await self._climb(one, now_ms)]
        if stuck:
            async with asyncio.TaskGroup() as group:
                for one in stuck:
                    group.create_task(self._restart_ci(one))

    async def _climb(self, seen: ContractAttempt, now_ms: int) -> list[str]:
        tip = await self._tip(seen)
        climb = partial(
            timeout_ladder.climb, policy=self._policy, seen=seen, tip=tip, now_ms=now_ms
        )
        return await self.store.write(climb, seen.swarm_id)

    async def _restart_ci(self, seen: ContractAttempt) -> None:
        """The ladder has asked for it, and goes on as soon as it is known what came of it."""
        wanted = await self.store.read(partial(ci_restarts.wanted, seen=seen))
        if wanted is None:
            return
        refusal = await self._refusal(wanted)
        now_ms = self.clock()
        settle = partial(
            ci_restarts.settle, seen=seen, sha=wanted.sha, refusal=refusal, now_ms=now_ms
        )
        if await self.store.write(settle, seen.swarm_id):
            await self._climb(seen, now_ms)

    async def _refusal(self, wanted: ci_restarts.RestartRequest) -> str | None:
        """Why it was not restarted."""
        try:
            async with asyncio.timeout(ci_restarts.RESTART_SECONDS):
                done = await self._evidence.restart_ci(wanted.demand, wanted.sha)
        except TimeoutError:
            return f"it took more than {ci_restarts.RESTART_SECONDS:.0f} s"
        except ShiftbossError as error:
            return error.detail
        except Exception as error:
            log.exception("the CI of %s could not be restarted", wanted.demand.repo)
            return f"a mistake of ours: {error!r}"
        return None if done else "its CI cannot be restarted from here"

    async def _tip(self, seen: ContractAttempt) -> str | None:
        """Where the branch of the task is now; None: nobody can say."""
        handoff = await self.store.read(lambda tx: tx.handoff(seen.swarm_id, seen.task_id))
        if handoff is None or handoff.branch is None:
            return None
        try:
            return await self._evidence.commit_of(handoff.repo, handoff.branch)
        except ShiftbossError:
            return None

    async def next_at_ms(self) -> int | None:
        return await self.store.read(lambda tx: tx.next_attempt_look_at_ms())


class Cascade(Timer):
    """Pauses the work on repos whose upstream is red or whose chain is halted, and lets it go on.
    Looks at every lock, in every swarm, so that what a crash has prevented is made up for at the
    next start."""

    def __init__(self, store: Store, clock: Clock, hub: Hub, policy: ActivePolicy) -> None:
        kinds = (
            EventKind.CLAIM_ACCEPTED,
            EventKind.CLAIM_REFUSED,
            EventKind.CI_FAILED,
            EventKind.CHAIN_HALTED,
            EventKind.REPO_LOCKED,
            EventKind.REPO_RELEASED,
            EventKind.TASK_STARTED,
        )
        super().__init__(store, clock, hub, *(kinds if policy.settings.repos else ()))
        hub.listen(EventKind.HALT_LIFTED, self._hear_of_lift)
        self._policy = policy
        self._lifted = True

    def _hear_of_lift(self, _event: Event) -> None:
        self._lifted = True
        self.wake()

    async def act(self, now_ms: int) -> None:
        if not self._policy.settings.repos:
            return
        lifted, self._lifted = self._lifted, False
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
