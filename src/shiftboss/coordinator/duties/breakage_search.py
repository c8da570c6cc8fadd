"""Searches for the upstream push that turned a repo red, and opens a task to fix it.

A search runs the failing jobs several times, so it takes a while. Repos that turn red in the
meantime wait for their turn.
"""

from __future__ import annotations

import logging
from collections import Counter
from functools import partial
from typing import ClassVar

from shiftboss.coordinator.clock import Clock
from shiftboss.coordinator.contract import breakage
from shiftboss.coordinator.contract.policy import ActivePolicy
from shiftboss.coordinator.duties.timer import Timer
from shiftboss.coordinator.event_hub import Hub
from shiftboss.errors import ShiftbossError
from shiftboss.evidence.port import Evidence
from shiftboss.protocol.events import EventKind
from shiftboss.rules.contract.records import RepoState
from shiftboss.store.port import Transactions

log = logging.getLogger(__name__)

TRIES_MAX = 3

_Red = tuple[str, str, str | None]


class BreakageSearch(Timer):
    """A repo that is red at the start is searched again: a crash may have ended its search."""

    # A search runs the jobs of CI several times.
    stuck_seconds: ClassVar[float] = 4 * 3600.0

    def __init__(
        self, store: Transactions, clock: Clock, hub: Hub, policy: ActivePolicy, evidence: Evidence
    ) -> None:
        super().__init__(store, clock, hub, EventKind.CI_FAILED)
        self._policy = policy
        self._evidence = evidence
        # Per repo the failure that was searched last, and how many searches of a failure failed.
        self._settled: dict[str, _Red] = {}
        self._tries: Counter[_Red] = Counter()

    async def act(self, now_ms: int) -> None:
        del now_ms
        for red in await self.store.read(lambda tx: tx.repo_states()):
            failure = (red.repo, red.sha, red.run_id)
            if red.state != "red" or self._settled.get(red.repo) == failure:
                continue
            try:
                await self._search(red)
            except ShiftbossError as error:
                log.warning("the search for what broke %s failed: %s", red.repo, error)
                self._tries[failure] += 1
                if self._tries[failure] < TRIES_MAX:
                    continue
            self._tries.pop(failure, None)
            self._settled[red.repo] = failure

    async def next_at_ms(self) -> int | None:
        return None

    async def _search(self, red: RepoState) -> None:
        question = await self.store.read(lambda tx: breakage.question_about(tx, self._policy, red))
        if question is None:
            return
        if not breakage.can_run_jobs(question):
            suspect = partial(breakage.suspect, red=red, question=question, now_ms=self.clock())
            await self.store.write(suspect, red.swarm_id)
            return
        finding = await self._evidence.find_breakage(question)
        settle = partial(
            breakage.settle,
            policy=self._policy,
            red=red,
            question=question,
            finding=finding,
            now_ms=self.clock(),
        )
        await self.store.write(settle, red.swarm_id)
