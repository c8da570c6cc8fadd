"""Looks at attempts whose milestone takes long, at the times that the contract names."""

from __future__ import annotations

from functools import partial

from shiftboss.coordinator.clock import Clock
from shiftboss.coordinator.contract import cascade, ladder
from shiftboss.coordinator.contract.contracts import Contracts
from shiftboss.coordinator.duties.timer import DUE_PER_ROUND_MAX, Timer
from shiftboss.coordinator.evidence import Evidence
from shiftboss.coordinator.hub import Hub
from shiftboss.errors import ShiftbossError
from shiftboss.protocol.events import Event, EventKind
from shiftboss.rules.contract import ContractAttempt
from shiftboss.store.port import Store


class TimeoutLadder(Timer):
    def __init__(
        self, store: Store, clock: Clock, hub: Hub, contracts: Contracts, evidence: Evidence
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
            *([EventKind.TASK_STARTED] if contracts.policy.repos else []),
        )
        self._contracts = contracts
        self._evidence = evidence

    async def act(self, now_ms: int) -> None:
        due = await self.store.read(lambda tx: tx.due_attempts(now_ms, DUE_PER_ROUND_MAX))
        for one in due:
            tip = await self._tip(one)
            climb = partial(
                ladder.climb, contracts=self._contracts, seen=one, tip=tip, now_ms=now_ms
            )
            await self.store.write(climb, one.swarm_id)

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

    def __init__(self, store: Store, clock: Clock, hub: Hub, contracts: Contracts) -> None:
        kinds = (
            EventKind.CI_PASSED,
            EventKind.CI_FAILED,
            EventKind.CHAIN_HALTED,
            EventKind.REPO_LOCKED,
            EventKind.TASK_STARTED,
        )
        super().__init__(store, clock, hub, *(kinds if contracts.policy.repos else ()))
        hub.listen(EventKind.HALT_LIFTED, self._hear_of_lift)
        self._contracts = contracts
        self._lifted = True

    def _hear_of_lift(self, _event: Event) -> None:
        self._lifted = True
        self.wake()

    async def act(self, now_ms: int) -> None:
        if not self._contracts.policy.repos:
            return
        lifted, self._lifted = self._lifted, False
        for lock in await self.store.read(lambda tx: cascade.unsettled(tx, self._contracts)):
            settle = partial(
                cascade.settle_pause, contracts=self._contracts, lock=lock, now_ms=now_ms
            )
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
