"""The evidence of a simulated server: slow, at times out of reach, never wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from typing import Final

from shiftboss.errors import EvidenceUnavailable, UnknownRepo
from shiftboss.evidence.port import Survey
from shiftboss.protocol.ci import CiDemand, CiReport
from shiftboss.protocol.claims.attestations import Envelope
from shiftboss.protocol.claims.diffs import WorkDiff
from shiftboss.protocol.claims.receipts import ReceiptBody, SignedReceipt
from shiftboss.protocol.claims.verdicts import CheckResult, Verdict, VerificationJob, Violation
from shiftboss.rules.claims.statements import StatementBody
from shiftboss.rules.contract.breakage import BreakageFinding, BreakageQuestion
from shiftboss.rules.contract.checkpoints import WorkSinceBase
from shiftboss.rules.prompts.context import ContextMaterial, ContextRequest
from shiftboss.simulator.forge import BASE_COMMIT, BRANCH, OWN_REPO, Forge, simulated_key

NO_REPOSITORY: Final = "there is no such repository on this machine"


class SimulatedEvidence:
    """See `shiftboss.evidence.port.Evidence`. `draw_delay` is how long a question takes, `fails`
    whether it cannot be answered now, `is_blind` whether the repository is not on this machine."""

    own_repo: str | None = OWN_REPO
    problem: str | None = None

    def __init__(
        self,
        forge: Forge,
        draw_delay: Callable[[], float],
        fails: Callable[[], bool],
        is_blind: Callable[[], bool],
    ) -> None:
        self._forge = forge
        self._draw_delay = draw_delay
        self._fails = fails
        self._is_blind = is_blind
        self.public_key = simulated_key().public_pem

    async def survey(
        self,
        repo: str,
        base: str | None,  # noqa: ARG002 - there is one base
        files: Sequence[str],  # noqa: ARG002 - every pattern is usable
        title: str,  # noqa: ARG002
        description: str,  # noqa: ARG002
    ) -> Survey:
        await self._look()
        return Survey(repo, f"{repo}/.git", BASE_COMMIT, BRANCH, [], ["It works"])

    async def identity(self, repo: str) -> str:
        return f"{repo}/.git"

    async def commit_of(self, repo: str, rev: str) -> str | None:
        await self._look()
        if rev in self._forge.commits:
            return rev
        shas = [sha for sha in self._forge.commits if len(rev) >= 7 and sha.startswith(rev)]
        return shas[0] if shas else self._forge.tips.get((repo, rev))

    async def is_on_branch(self, repo: str, commit: str, branch: str) -> bool:  # noqa: ARG002
        return commit in self._forge.commits

    async def is_squash_of(
        self,
        repo: str,  # noqa: ARG002
        squash: str,  # noqa: ARG002
        commit: str,  # noqa: ARG002
        accepted: list[str],  # noqa: ARG002
        branch: str,  # noqa: ARG002
    ) -> bool:
        return False

    async def work_since(self, repo: str, base: str, rev: str) -> WorkSinceBase | None:  # noqa: ARG002
        return None

    async def diff(self, repo: str, base: str, rev: str) -> WorkDiff | None:  # noqa: ARG002
        return None

    async def ci_report(self, demand: CiDemand, sha: str) -> CiReport:  # noqa: ARG002
        await self._look()
        return self._forge.ci_report(sha, asyncio.get_running_loop().time())

    async def restart_ci(self, demand: CiDemand, sha: str) -> bool:  # noqa: ARG002
        await self._look()
        return False

    async def context_material(self, request: ContextRequest) -> ContextMaterial:  # noqa: ARG002
        raise EvidenceUnavailable("nothing to read")

    async def find_breakage(self, question: BreakageQuestion) -> BreakageFinding:  # noqa: ARG002
        raise EvidenceUnavailable("nothing to search")

    async def verify(self, job: VerificationJob) -> Verdict:
        if self._is_blind():
            raise UnknownRepo(NO_REPOSITORY)
        await self._look()
        sha = job.commit or self._forge.tips.get((job.repo, job.branch or BRANCH))
        commit = self._forge.commits.get(sha) if sha is not None else None
        if commit is None:
            return _verdict(job, None, "there is no such commit")
        if (commit.repo, commit.task_id) != (job.repo, job.bead_id):
            return _verdict(job, commit.sha, "the commit does not belong to this task")
        return _verdict(job, commit.sha, None if commit.is_good else "the work is not done")

    def replace_key(self, retired: Collection[str]) -> bool:
        del retired
        return False

    def sign(self, body: ReceiptBody) -> SignedReceipt:
        return simulated_key().sign(body)

    def attest(self, body: StatementBody) -> Envelope:
        return simulated_key().attest(body)

    async def close(self) -> None:
        pass

    async def _look(self) -> None:
        await asyncio.sleep(self._draw_delay())
        if self._fails():
            raise EvidenceUnavailable("the repository cannot be read now")


def _verdict(job: VerificationJob, sha: str | None, problem: str | None) -> Verdict:
    accepted = problem is None
    message = problem or "the commit is there, and the work is done"
    return Verdict(
        accepted=accepted,
        base_commit=job.base_commit,
        commit=sha,
        tree=None if sha is None else sha[::-1],
        checks=[
            CheckResult(check="commit", outcome="passed" if accepted else "failed", message=message)
        ],
        violations=[]
        if accepted
        else [Violation(check="commit", message=message, hint="do the work, then claim again")],
    )
