"""The port of the evidence: how the coordinator looks at what is true."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from shiftboss.errors import EvidenceUnavailable
from shiftboss.evidence.survey.survey import Survey
from shiftboss.protocol.ci import CiDemand, CiReport
from shiftboss.protocol.receipts import ReceiptBody, SignedReceipt
from shiftboss.protocol.verdicts import Verdict, VerificationJob
from shiftboss.rules.contract.breakage import BreakageFinding, BreakageQuestion
from shiftboss.rules.prompts.context import ContextRequest, Material


class Evidence(Protocol):
    """`own_repo` is the repository that the server runs in, if any; `public_key` checks the
    receipts."""

    own_repo: str | None
    public_key: str

    async def survey(
        self, repo: str, base: str | None, files: Sequence[str], title: str, description: str
    ) -> Survey:
        """Raises UnknownRepo, or InvalidRequest for a base or a path that makes no sense."""
        ...

    async def identity(self, repo: str) -> str:
        """The same for all work trees of a repository. Raises UnknownRepo."""
        ...

    async def commit_of(self, repo: str, rev: str) -> str | None:
        """The commit that a revision stands for, in full."""
        ...

    async def is_on_branch(self, repo: str, commit: str, branch: str) -> bool: ...

    async def ci_report(self, demand: CiDemand, sha: str) -> CiReport:
        """What CI says about a commit, with the logs of what failed. Raises CiUnavailable."""
        ...

    async def restart_ci(self, demand: CiDemand, sha: str) -> bool:
        """Have the runs of a commit that are under way made anew. False: that cannot be done from
        here. Raises CiUnavailable."""
        ...

    async def context_material(self, wish: ContextRequest) -> Material:
        """What a new worker should read. Raises InvalidRequest for a plan that is not there."""
        ...

    async def find_breakage(self, question: BreakageQuestion) -> BreakageFinding:
        """Which push upstream turned a repo red. Raises CiUnavailable."""
        ...

    async def verify(self, job: VerificationJob) -> Verdict:
        """Raises EvidenceUnavailable when it cannot be looked at."""
        ...

    def sign(self, body: ReceiptBody) -> SignedReceipt: ...

    async def close(self) -> None: ...


class NoEvidence:
    """Of a coordinator without handoffs: it refuses to believe what it cannot see."""

    own_repo: str | None = None
    public_key = ""

    async def survey(
        self,
        repo: str,  # noqa: ARG002
        base: str | None,  # noqa: ARG002
        files: Sequence[str],  # noqa: ARG002
        title: str,  # noqa: ARG002
        description: str,  # noqa: ARG002
    ) -> Survey:
        raise _blind()

    async def identity(self, repo: str) -> str:  # noqa: ARG002
        raise _blind()

    async def commit_of(self, repo: str, rev: str) -> str | None:  # noqa: ARG002
        raise _blind()

    async def is_on_branch(self, repo: str, commit: str, branch: str) -> bool:  # noqa: ARG002
        raise _blind()

    async def ci_report(self, demand: CiDemand, sha: str) -> CiReport:  # noqa: ARG002
        raise _blind()

    async def restart_ci(self, demand: CiDemand, sha: str) -> bool:  # noqa: ARG002
        raise _blind()

    async def context_material(self, wish: ContextRequest) -> Material:  # noqa: ARG002
        raise _blind()

    async def find_breakage(self, question: BreakageQuestion) -> BreakageFinding:  # noqa: ARG002
        raise _blind()

    async def verify(self, job: VerificationJob) -> Verdict:  # noqa: ARG002
        raise _blind()

    def sign(self, body: ReceiptBody) -> SignedReceipt:  # noqa: ARG002
        raise _blind()

    async def close(self) -> None:
        pass


def _blind() -> EvidenceUnavailable:
    return EvidenceUnavailable("this coordinator was started without evidence")
