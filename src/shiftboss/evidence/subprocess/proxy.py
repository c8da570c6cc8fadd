"""The evidence of a server: looked at by a process of its own, signed in the server's.

One claim takes some forty gits and commands. To start one holds up whoever starts it, and to listen
to them takes the interpreter's time; none of that may come before the answer to a report.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from shiftboss.errors import EvidenceUnavailable
from shiftboss.evidence.keys import KEY_FILE, SigningKey
from shiftboss.evidence.subprocess.connection import EvidenceConnection, start_apart
from shiftboss.evidence.survey.survey import Survey
from shiftboss.protocol.ci import CiDemand, CiReport
from shiftboss.protocol.receipts import ReceiptBody, SignedReceipt
from shiftboss.protocol.verdicts import Verdict, VerificationJob
from shiftboss.rules.contract.breakage import BreakageFinding, BreakageQuestion
from shiftboss.rules.prompts.context import ContextRequest, Material


class EvidenceProxy:
    """The first look starts the process, and so does the next after it was ended: what was under
    way then fails with EvidenceUnavailable. It ends with the server, however that ends."""

    def __init__(self, folder: Path, own_repo: str | None) -> None:
        self.own_repo = own_repo
        self._folder = folder
        self._key = SigningKey.load_or_create(folder / KEY_FILE)
        self.public_key = self._key.public_pem
        self._line: asyncio.Task[EvidenceConnection] | None = None
        self._is_closed = False

    async def survey(
        self, repo: str, base: str | None, files: Sequence[str], title: str, description: str
    ) -> Survey:
        found: Survey = await self._ask("survey", repo, base, list(files), title, description)
        return found

    async def identity(self, repo: str) -> str:
        identity: str = await self._ask("identity", repo)
        return identity

    async def commit_of(self, repo: str, rev: str) -> str | None:
        commit: str | None = await self._ask("commit_of", repo, rev)
        return commit

    async def is_on_branch(self, repo: str, commit: str, branch: str) -> bool:
        found: bool = await self._ask("is_on_branch", repo, commit, branch)
        return found

    async def ci_report(self, demand: CiDemand, sha: str) -> CiReport:
        report: CiReport = await self._ask("ci_report", demand, sha)
        return report

    async def restart_ci(self, demand: CiDemand, sha: str) -> bool:
        done: bool = await self._ask("restart_ci", demand, sha)
        return done

    async def context_material(self, wish: ContextRequest) -> Material:
        material: Material = await self._ask("context_material", wish)
        return material

    async def find_breakage(self, question: BreakageQuestion) -> BreakageFinding:
        finding: BreakageFinding = await self._ask("find_breakage", question)
        return finding

    async def verify(self, job: VerificationJob) -> Verdict:
        verdict: Verdict = await self._ask("verify", job)
        return verdict

    def sign(self, body: ReceiptBody) -> SignedReceipt:
        return self._key.sign(body)

    async def close(self) -> None:
        """Wait until the last checkout is removed and the process is gone."""
        self._is_closed = True
        if self._line is None:
            return
        await asyncio.wait((self._line,))
        if self._line.exception() is not None:
            return
        line = self._line.result()
        try:
            if not line.has_ended:
                await line.ask("close")
        except EvidenceUnavailable:
            if not line.has_ended:
                raise
        finally:
            await line.close()

    async def _ask(self, name: str, *arguments: object) -> Any:
        line = await self._process()
        return await line.ask(name, *arguments)

    async def _process(self) -> EvidenceConnection:
        """A start that somebody is no longer interested in goes on, for the others."""
        if self._is_closed:
            raise EvidenceUnavailable("the server is stopping")
        if self._line is None or _is_over(self._line):
            self._line = asyncio.create_task(start_apart(self._folder))
        return await asyncio.shield(self._line)


def _is_over(line: asyncio.Task[EvidenceConnection]) -> bool:
    return line.done() and (line.exception() is not None or line.result().has_ended)
