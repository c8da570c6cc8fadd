"""Everything that this machine can look at: repositories, commands, CI."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

from shiftboss.errors import CiUnavailable
from shiftboss.evidence.checks.verifier import Verifier
from shiftboss.evidence.ci.forges.rows import OPEN
from shiftboss.evidence.ci.local.breakage import find_breakage
from shiftboss.evidence.ci.provider import CiProvider, providers
from shiftboss.evidence.mirror.repository import Repository
from shiftboss.evidence.survey.context_reader import ContextReader
from shiftboss.evidence.survey.survey import Survey, Surveyor
from shiftboss.protocol.ci import CiDemand, CiReport, CiRun
from shiftboss.protocol.verdicts import Verdict, VerificationJob
from shiftboss.rules.contract.breakage import BreakageFinding, BreakageQuestion
from shiftboss.rules.prompts.context import ContextRequest, Material
from shiftboss.system.file_locks import hold_slot


class Inspector:
    """Keeps its mirrors and results in the folder of the database. It needs no key."""

    def __init__(self, folder: Path) -> None:
        self._repository = Repository()
        self._surveyor = Surveyor(self._repository)
        self._context_reader = ContextReader(self._repository)
        # Servers on one PostgreSQL may share the folder; what each throws away is its own.
        self._exclusive_dir = hold_slot(folder / "verification")
        name = str(self._exclusive_dir.number)
        writing = asyncio.Lock()
        self._verifier = Verifier(
            folder / "verification" / name,
            checkouts=checkouts_for(folder) / name,
            ask_ci=self.ci_report,
            writing=writing,
        )
        self._ci = providers(folder / "ci" / name, writing)

    async def survey(
        self, repo: str, base: str | None, files: Sequence[str], title: str, description: str
    ) -> Survey:
        return await self._surveyor.survey(repo, base, files, title, description)

    async def identity(self, repo: str) -> str:
        return await self._repository.identity(repo)

    async def commit_of(self, repo: str, rev: str) -> str | None:
        return await self._repository.commit_of(repo, rev)

    async def is_on_branch(self, repo: str, commit: str, branch: str) -> bool:
        return await self._repository.is_on_branch(repo, commit, branch)

    async def ci_report(self, demand: CiDemand, sha: str) -> CiReport:
        provider = self._ci.of(demand)
        await provider.start(demand, sha)
        report = await provider.look(demand, sha)
        runs = [await self._with_logs(provider, demand, run) for run in report.runs]
        return report.model_copy(update={"runs": runs})

    async def restart_ci(self, demand: CiDemand, sha: str) -> bool:
        provider = self._ci.of(demand)
        runs = (await provider.look(demand, sha)).runs
        waiting = [run for run in runs if run.state in OPEN]
        done = [await provider.restart(demand, sha, run) for run in waiting]
        return bool(done) and all(done)

    @staticmethod
    async def _with_logs(provider: CiProvider, demand: CiDemand, run: CiRun) -> CiRun:
        """The end of the log of every job that failed; a log that is not to be had is no reason to
        know nothing."""
        jobs = []
        for job in run.jobs:
            tail = job.log_tail
            if job.state == "failure" and tail is None:
                with contextlib.suppress(CiUnavailable):
                    tail = await provider.log_tail(demand, run, job)
            jobs.append(job.model_copy(update={"log_tail": tail}))
        return run.model_copy(update={"jobs": jobs})

    async def context_material(self, wish: ContextRequest) -> Material:
        return await self._context_reader.read(wish)

    async def find_breakage(self, question: BreakageQuestion) -> BreakageFinding:
        return await find_breakage(self._ci.local, question)

    async def verify(self, job: VerificationJob) -> Verdict:
        return await self._verifier.verify(job)

    async def close(self) -> None:
        await self._verifier.close()
        await self._ci.close()
        self._exclusive_dir.release()


def checkouts_for(folder: Path) -> Path:
    """Outside of the worker's repository, in which the database may lie: tools look for their
    settings and packages in the folders above."""
    caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    name = hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:16]
    return Path(caches) / "shiftboss" / "checkouts" / name
