"""Finding the upstream push that broke a repo, by bisection: its failing jobs are run with the
upstream repos as they were before and after a push."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from shiftboss.evidence.ci.local.runner import LocalCi
from shiftboss.rules.contract.breakage import (
    Bisection,
    BreakageFinding,
    BreakageQuestion,
    UpstreamPush,
    commits_after,
)

_NO_PUSHES: Final = BreakageFinding("no_pushes")


async def find_breakage(ci: LocalCi, question: BreakageQuestion) -> BreakageFinding:
    """Raises CiUnavailable if a job cannot be run."""
    tips = await ci.dependencies.commits(question.demand)
    pushes = [push for push in question.pushes if await _is_in_tip(ci, question, tips, push)]
    if not pushes or not question.jobs:
        return _NO_PUSHES
    return await _Search(ci, question, pushes, tips).run()


async def _is_in_tip(
    ci: LocalCi, question: BreakageQuestion, tips: Mapping[str, str], push: UpstreamPush
) -> bool:
    """A push to another branch, or one that was overwritten, cannot be the cause."""
    return push.repo in tips and await ci.dependencies.contains(
        question.demand, push.repo, tips[push.repo], push.sha
    )


class _Search:
    def __init__(
        self,
        ci: LocalCi,
        question: BreakageQuestion,
        pushes: list[UpstreamPush],
        tips: Mapping[str, str],
    ) -> None:
        self._ci = ci
        self._question = question
        self._pushes = pushes
        self._tips = tips
        self._probes = 0

    async def run(self) -> BreakageFinding:
        """First rule out the repo's own change: its base commit must fail with upstream as it is
        now, and pass with upstream as it was."""
        base, last = self._question.base, len(self._pushes)
        if await self._passes(base, self._tips):
            return self._counted(BreakageFinding("own_change"))
        if not await self._passes(base, self._after(0)):
            return self._counted(BreakageFinding("older"))
        if self._after(last) != self._tips and await self._passes(base, self._after(last)):
            return self._counted(BreakageFinding("unreported"))
        search = Bisection(0, last)
        while (state := search.to_try) is not None:
            search = search.after(state, works=await self._passes(base, self._after(state)))
        push = self._pushes[search.good]
        finding = BreakageFinding(
            "upstream",
            push,
            own_change_too=not await self._passes(self._question.sha, self._after(search.good)),
            is_tip=self._tips[push.repo] == push.sha,
        )
        return self._counted(finding)

    def _after(self, count: int) -> dict[str, str]:
        return commits_after(self._pushes, count, self._tips)

    def _counted(self, finding: BreakageFinding) -> BreakageFinding:
        return finding._replace(probes=self._probes)

    async def _passes(self, sha: str, commits: Mapping[str, str]) -> bool:
        self._probes += 1
        demand = self._question.demand
        pinned = {
            name: dependency.model_copy(update={"commit": commits[name]})
            for name, dependency in demand.dependencies.items()
        }
        return await self._ci.probe(
            demand.model_copy(update={"dependencies": pinned}), sha, self._question.jobs
        )
