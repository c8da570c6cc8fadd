"""Whether this server works, is ready, and what is wrong with it."""

from __future__ import annotations

import asyncio
from typing import Final

from shiftboss.coordinator.after_commit.runner import AfterCommit
from shiftboss.coordinator.clock import Clock
from shiftboss.coordinator.contract.policy import ActivePolicy
from shiftboss.coordinator.deployment.database_clock import DatabaseClock
from shiftboss.coordinator.deployment.policies import PolicyService
from shiftboss.errors import StoreDamaged, StoreUnavailable
from shiftboss.evidence.ci.credentials import credential_problems
from shiftboss.evidence.port import Evidence
from shiftboss.protocol.ci import CredentialProblem
from shiftboss.rules.deployment.readiness import (
    ReadinessProblem,
    warning_of_effects,
    warning_of_evidence,
    warning_of_log,
)
from shiftboss.store.port import Store

# A load balancer asks often and does not wait for long.
HEALTH_SECONDS: Final = 3


class Health:
    """Each `..._problem` is None while all is well."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        database_clock: DatabaseClock | None,
        evidence: Evidence,
        after_commit: AfterCommit,
        policies: PolicyService,
        policy: ActivePolicy,
    ) -> None:
        self._store = store
        self._clock = clock
        self._database_clock = database_clock
        self._evidence = evidence
        self._after_commit = after_commit
        self._policies = policies
        self._policy = policy

    def clock_problem(self) -> ReadinessProblem | None:
        problem = None if self._database_clock is None else self._database_clock.problem()
        return (
            None
            if problem is None
            else ReadinessProblem("clock", problem.detail, problem.hint or "")
        )

    def evidence_problem(self) -> ReadinessProblem | None:
        problem = self._evidence.problem
        return None if problem is None else warning_of_evidence(problem)

    def effects_problem(self) -> ReadinessProblem | None:
        oldest_ms = self._after_commit.oldest_at_ms
        if oldest_ms is None:
            return None
        return warning_of_effects(self._after_commit.waiting, self._clock() - oldest_ms)

    def log_problem(self) -> ReadinessProblem | None:
        held_bytes = self._store.measures.log_bytes_held
        return warning_of_log(held_bytes) if held_bytes else None

    def policy_problem(self) -> ReadinessProblem | None:
        unreadable = self._policies.unreadable
        return None if unreadable is None else ReadinessProblem("policy", unreadable)

    async def credential_lines(self) -> list[str]:
        return [
            f"{each.problem} ({', '.join(each.repos)}): {each.hint}"
            for each in await self.credential_problems()
        ]

    async def credential_problems(self) -> list[CredentialProblem]:
        """The secrets that the policy names and that this server cannot read now."""
        return await asyncio.to_thread(credential_problems, self._policy.settings)

    async def check(self) -> None:
        """Raises StoreUnavailable when the database cannot be read, or refuses writes."""
        try:
            async with asyncio.timeout(HEALTH_SECONDS):
                await self._store.read(lambda tx: tx.next_retry_at_ms())
        except TimeoutError:
            raise StoreUnavailable(
                f"the database has not answered for {HEALTH_SECONDS} s"
            ) from None
        failing = self._store.failing()
        if isinstance(failing, StoreDamaged):
            raise failing.repeated()
        if failing is not None:
            raise StoreUnavailable(
                failing.detail, hint="workers keep their reports until it recovers"
            )
