"""The port of a CI provider, and the opening of all of them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Protocol

from shiftboss.evidence.ci.forges.forgejo import ForgejoCi
from shiftboss.evidence.ci.forges.github import GithubCi
from shiftboss.evidence.ci.forges.http import ForgeHttp
from shiftboss.evidence.ci.local.runner import LocalCi
from shiftboss.protocol.ci import CiDemand, CiJob, CiReport, CiRun


class CiProvider(Protocol):
    """Tells of the runs of one commit, found by its full SHA alone.

    All raise CiUnavailable when there is no answer. They do not wait themselves: the error and the
    report say how long to stay away, and until then a forge is not asked again.
    """

    async def start(self, demand: CiDemand, sha: str) -> None:
        """Have the commit's jobs run. A forge does so by itself at the push, so this does nothing
        there. Saying it again is safe: what runs or has ended is left as it is."""

    async def look(self, demand: CiDemand, sha: str) -> CiReport:
        """The newest run of every workflow. No run yet is a report without runs, not complete."""

    async def log_tail(self, demand: CiDemand, run: CiRun, job: CiJob) -> str | None:
        """The end of a job's log; None where there is none to be had."""

    async def restart(self, demand: CiDemand, sha: str, run: CiRun) -> bool:
        """Have a run of the commit made anew; one that is under way is called off first, which a
        forge is given some seconds for. False: that cannot be done from here."""


class Providers:
    """The providers by the names that a policy gives them."""

    def __init__(self, folder: Path, writing: asyncio.Lock | None = None) -> None:
        self._http = ForgeHttp()
        self.local = LocalCi(folder, writing=writing)
        self._by_name: dict[str, CiProvider] = {
            "local": self.local,
            "forgejo": ForgejoCi(self._http),
            "github": GithubCi(self._http),
        }

    def of(self, demand: CiDemand) -> CiProvider:
        return self._by_name[demand.policy.provider]

    async def close(self) -> None:
        """Jobs under way are ended; the next server runs them again."""
        await self.local.close()
        await self._http.close()


def providers(folder: Path, writing: asyncio.Lock | None = None) -> Providers:
    """`folder` holds what the local runner keeps: results, mirrors, checkouts. `writing` is held by
    whoever writes or removes a checkout."""
    return Providers(folder, writing)
