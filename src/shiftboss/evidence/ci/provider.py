"""The port of a CI provider, and the table of all providers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, Protocol

from shiftboss.evidence.ci.forge_api.http import ForgeHttp
from shiftboss.evidence.ci.forges.forgejo import ForgejoCi
from shiftboss.evidence.ci.forges.github import GithubCi
from shiftboss.evidence.ci.local.runner import LocalCi
from shiftboss.protocol.ci import CiDemand, CiJob, CiReport, CiRun


class CiProvider(Protocol):
    """Reports the runs of one commit, which are found by its full SHA only.

    All methods raise CiUnavailable when CI does not answer. They do not wait: the error and the
    report say when to ask again, and before that a forge gets no request.
    """

    async def start(self, demand: CiDemand, sha: str) -> None:
        """Start the jobs of the commit. Does nothing for a forge, where the push starts them. Can
        be repeated: a run that is under way or has ended stays as it is."""

    async def look(self, demand: CiDemand, sha: str) -> CiReport:
        """The newest run of every workflow. Before the first run, the report has no runs and is not
        complete."""

    async def log_tail(self, demand: CiDemand, run: CiRun, job: CiJob) -> str | None:
        """The end of a job's log. None: there is no log."""

    async def restart(self, demand: CiDemand, sha: str, run: CiRun) -> bool:
        """Run the jobs of a run again. A run that is under way is cancelled first, which may take a
        forge some seconds. False: this provider cannot restart it."""


# A new forge is registered here, under the name that a policy gives it.
FORGES: Final[Mapping[str, Callable[[ForgeHttp], CiProvider]]] = {
    "forgejo": ForgejoCi,
    "github": GithubCi,
}


class CiProviders:
    """All providers, by their names in a policy. `folder` holds what the local runner keeps:
    results, mirrors, checkouts. `writing` is held while a checkout is written or deleted."""

    def __init__(self, folder: Path, writing: asyncio.Lock | None = None) -> None:
        self._http = ForgeHttp()
        self.local = LocalCi(folder, writing=writing)
        self._by_name: dict[str, CiProvider] = {
            "local": self.local,
            **{name: forge(self._http) for name, forge in FORGES.items()},
        }

    def of(self, demand: CiDemand) -> CiProvider:
        return self._by_name[demand.policy.provider]

    async def close(self) -> None:
        """Jobs under way are cancelled; the next server runs them again."""
        await self.local.close()
        await self._http.close()
