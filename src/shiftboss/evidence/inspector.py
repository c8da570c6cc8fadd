"""The implementation of the evidence port: facts about repositories and CI on this machine."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

from shiftboss.errors import CiUnavailable
from shiftboss.evidence.checks.verifier import Verifier
from shiftboss.evidence.ci.local.breakage import find_breakage
from shiftboss.evidence.ci.provider import CiProvider, CiProviders
from shiftboss.evidence.ci.states import OPEN
from shiftboss.evidence.commands.sandbox import secret_paths
from shiftboss.evidence.mirror.diffs import DiffReader
from shiftboss.evidence.mirror.remote_repository import MirroredRepository
from shiftboss.evidence.survey.context_reader import ContextReader
from shiftboss.evidence.survey.survey import Surveyor
from shiftboss.protocol.ci import CiDemand, CiReport, CiRun
from shiftboss.rules.contract.breakage import BreakageFinding, BreakageQuestion
from shiftboss.system.file_locks import acquire_exclusive_folder


class Inspector:
    """Keeps mirrors and results in the folder of the database. Has no signing key."""

    # It runs in the process that asks.
    problem: str | None = None

    def __init__(self, folder: Path, secrets: Sequence[Path] = ()) -> None:
        """Commands see neither the state in the folder nor `secrets`."""
        # Servers on one PostgreSQL may share the folder, but each deletes only what is its own.
        self._exclusive_folder = acquire_exclusive_folder(folder / "verification")
        name = str(self._exclusive_folder.number)
        writing = asyncio.Lock()
        self._verifier = Verifier(
            folder / "verification" / name,
            checkouts=checkouts_for(folder) / name,
            ask_ci=self.ci_report,
            writing=writing,
            hidden=secret_paths(folder, secrets),
        )
        repository = MirroredRepository(self._verifier.mirrors)
        self._ci = CiProviders(folder / "ci" / name, writing)
        # The questions of the port that others answer as they are.
        self.survey = Surveyor(repository).survey
        self.identity = repository.identity
        self.commit_of = repository.commit_of
        self.is_on_branch = repository.is_on_branch
        self.is_squash_of = repository.is_squash_of
        self.work_since = repository.work_since
        self.diff = DiffReader(self._verifier.mirrors).diff
        self.context_material = ContextReader(repository).read
        self.verify = self._verifier.verify

    async def ci_report(self, demand: CiDemand, sha: str) -> CiReport:
        provider = self._ci.of(demand)
        await provider.start(demand, sha)
        report = await provider.look(demand, sha)
        runs = [await _with_logs(provider, demand, run) for run in report.runs]
        return report.model_copy(update={"runs": runs})

    async def restart_ci(self, demand: CiDemand, sha: str) -> bool:
        provider = self._ci.of(demand)
        runs = (await provider.look(demand, sha)).runs
        unfinished = [run for run in runs if run.state in OPEN]
        restarted = [await provider.restart(demand, sha, run) for run in unfinished]
        return bool(restarted) and all(restarted)

    async def find_breakage(self, question: BreakageQuestion) -> BreakageFinding:
        return await find_breakage(self._ci.local, question)

    async def close(self) -> None:
        await self._verifier.close()
        await self._ci.close()
        self._exclusive_folder.release()


def checkouts_for(folder: Path) -> Path:
    """A folder outside of the worker's repository, in which the database may be: tools look for
    their settings and packages in parent folders."""
    caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    name = hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:16]
    return Path(caches) / "shiftboss" / "checkouts" / name


async def _with_logs(provider: CiProvider, demand: CiDemand, run: CiRun) -> CiRun:
    """Add the end of the log of every failed job. A log that cannot be read is left out: the report
    is useful without it."""
    jobs = []
    for job in run.jobs:
        tail = job.log_tail
        if job.state == "failure" and tail is None:
            with contextlib.suppress(CiUnavailable):
                tail = await provider.log_tail(demand, run, job)
        jobs.append(job.model_copy(update={"log_tail": tail}))
    return run.model_copy(update={"jobs": jobs})
