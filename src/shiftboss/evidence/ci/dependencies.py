"""The repos that a repo is built on, checked out beside it for the jobs of the local runner."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

from shiftboss.errors import CiUnavailable
from shiftboss.evidence.checkout import clean_checkout
from shiftboss.evidence.ci.access import SET_UP_SECONDS
from shiftboss.evidence.mirror import BRANCHES, Mirror, Mirrors
from shiftboss.protocol.ci import CiDemand, CiDependency
from shiftboss.rules.contract.repo_graph import variable_of
from shiftboss.system.background_delete import Disposal


class Dependencies:
    def __init__(self, mirrors: Mirrors, disposal: Disposal) -> None:
        self._mirrors = mirrors
        self._disposal = disposal

    async def commits(self, demand: CiDemand) -> dict[str, str]:
        """Of each the commit that is meant now: all jobs of a run see the same ones."""
        return {name: await self._commit(name, one) for name, one in demand.dependencies.items()}

    @asynccontextmanager
    async def beside(
        self, demand: CiDemand, commits: Mapping[str, str]
    ) -> AsyncIterator[dict[str, str]]:
        """Variables with the folders of fresh checkouts, which nobody else uses."""
        variables = {}
        async with AsyncExitStack() as stack:
            for name, commit in commits.items():
                mirror = await self._mirrors.of(demand.dependencies[name].path)
                made = await stack.enter_async_context(
                    clean_checkout(mirror, commit, self._disposal)
                )
                variables[variable_of(name)] = str(made.files)
            yield variables

    async def contains(self, demand: CiDemand, name: str, tip: str, commit: str) -> bool:
        """Is the commit in the history of the tip?"""
        mirror = await self._mirrors.of(demand.dependencies[name].path)
        return await has_commit(mirror, commit) and await mirror.is_ancestor(commit, tip)

    async def _commit(self, name: str, wanted: CiDependency) -> str:
        mirror = await self._mirrors.of(wanted.path)
        if wanted.commit is not None:
            if not (mirror.path.exists() and await has_commit(mirror, wanted.commit)):
                await mirror.refresh()
            if await has_commit(mirror, wanted.commit):
                return wanted.commit
            raise _missing(f"there is no commit {wanted.commit} on any branch of {name}")
        await mirror.refresh()
        (found,) = await mirror.look_up([f"{BRANCHES}{wanted.branch}"])
        if found is None or found.kind != "commit":
            raise _missing(f"there is no branch {wanted.branch} in {name}, which this is built on")
        return found.id


async def has_commit(mirror: Mirror, sha: str) -> bool:
    (found,) = await mirror.look_up([sha])
    return found is not None and found.kind == "commit" and found.id == sha


def _missing(detail: str) -> CiUnavailable:
    return CiUnavailable(
        detail,
        reason="set_up",
        retry_after_seconds=SET_UP_SECONDS,
        hint="look at path and branch of that repo in shiftboss.yaml",
    )
