"""A CI provider for a fake forge."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from shiftboss.errors import CiUnavailable
from shiftboss.evidence.ci.forge_api.http import ForgeHttp
from shiftboss.evidence.ci.forges.forgejo import ForgejoCi
from shiftboss.evidence.ci.forges.github import GithubCi
from shiftboss.protocol.ci import CiDemand, CiReport
from shiftboss.rules.contract.ci_verdict import ci_state, judge_ci_report
from tests.forge import Flavour, Forge

SHA = "7f3a2b1" + "0" * 33
OTHER = "8e4b3c2" + "0" * 33
FLAVOURS: list[Flavour] = ["forgejo-old", "forgejo-runs", "forgejo-new", "gitea", "github"]
OF_FORGEJO = FLAVOURS[:4]
SHORTLY_AFTER = datetime(2026, 1, 9, 10, 1, tzinfo=UTC)


class Provider:
    """A provider for the forge, with clocks that the test sets."""

    def __init__(self, forge: Forge) -> None:
        self.forge = forge
        self.seconds = 1000.0
        self.today = SHORTLY_AFTER
        self.http = ForgeHttp(now=lambda: self.seconds, epoch=lambda: self.seconds)
        self.provider = (
            GithubCi(self.http, cancel_pause=0.01)
            if forge.flavour == "github"
            else ForgejoCi(self.http, today=lambda: self.today, cancel_pause=0.01)
        )
        self.demand = forge.demand(required_jobs=["test"], must_succeed=["radicle-push"])

    async def look(self, sha: str = SHA, demand: CiDemand | None = None) -> CiReport:
        return await self.provider.look(demand or self.demand, sha)

    async def fails(self) -> CiUnavailable:
        with pytest.raises(CiUnavailable) as caught:
            await self.look()
        return caught.value

    async def verdict(self, sha: str = SHA) -> str:
        return ci_state(judge_ci_report(await self.look(sha), self.demand))


def states(report: CiReport) -> dict[str, str]:
    return {job.name: job.state for run in report.runs for job in run.jobs}


def only(*flavours: Flavour) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("forge", flavours, indirect=True)
