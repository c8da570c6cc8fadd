"""Asks the forges of the policy, with the credentials that this server has."""

from __future__ import annotations

from typing import Final

from shiftboss.coordinator.contract.policy import ActivePolicy
from shiftboss.errors import CiUnavailable, ShiftbossError
from shiftboss.evidence.port import Evidence
from shiftboss.protocol.deployment.servers import (
    CheckForgesRequest,
    ForgeChecks,
    ForgeCheckView,
)
from shiftboss.protocol.policy import RepoPolicy

# The forge is asked about a commit, as for a task; if there is none, about one that does not exist.
_NO_COMMIT: Final = "0" * 40


class ForgeCheckService:
    def __init__(self, policy: ActivePolicy, evidence: Evidence) -> None:
        self._policy = policy
        self._evidence = evidence

    async def check_forges(
        self, _request: CheckForgesRequest, _key: str | None = None
    ) -> ForgeChecks:
        """One repo after the other: rate limits and errors of the first apply to the next."""
        repos = self._policy.settings.repos
        on_forges = {name: repo for name, repo in repos.items() if repo.ci.provider != "local"}
        views = [await self._check(name, repo) for name, repo in on_forges.items()]
        return ForgeChecks(repos=len(repos), checks=views)

    async def _check(self, name: str, repo: RepoPolicy) -> ForgeCheckView:
        demand = self._policy.demand(name, repo.path or "")
        try:
            await self._evidence.ci_report(demand, await self._tip(repo))
        except CiUnavailable as error:
            reason = str(error.facts.get("reason", "answer"))
            return ForgeCheckView(repo=name, detail=error.detail, reason=reason, hint=error.hint)
        return ForgeCheckView(repo=name)

    async def _tip(self, repo: RepoPolicy) -> str:
        if repo.path is None:
            return _NO_COMMIT
        try:
            return await self._evidence.commit_of(repo.path, repo.branch) or _NO_COMMIT
        except ShiftbossError:
            return _NO_COMMIT
