"""The port of the evidence: the questions that the coordinator asks about git, tests and CI.

This is the only list of them. `Inspector` implements them, `EvidenceProxy` forwards them to the
evidence process of the server.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple, NoReturn, Protocol

from shiftboss.errors import EvidenceUnavailable
from shiftboss.protocol.ci import CiDemand, CiReport
from shiftboss.protocol.claims.attestations import Envelope
from shiftboss.protocol.claims.diffs import WorkDiff
from shiftboss.protocol.claims.receipts import ReceiptBody, SignedReceipt
from shiftboss.protocol.claims.verdicts import Verdict, VerificationJob
from shiftboss.rules.claims.statements import StatementBody
from shiftboss.rules.contract.breakage import BreakageFinding, BreakageQuestion
from shiftboss.rules.contract.checkpoints import WorkSinceBase
from shiftboss.rules.prompts.context import ContextMaterial, ContextRequest


class Survey(NamedTuple):
    """`branch` is None if HEAD is detached; `identity` is the same for all work trees."""

    toplevel: str
    identity: str
    base_commit: str
    branch: str | None
    files_readonly: list[str]
    success_criteria: list[str]


class Evidence(Protocol):
    """`own_repo` is the repository that the server runs in, if any. `public_key` verifies what is
    signed from now on; it is empty if nothing can be."""

    own_repo: str | None

    @property
    def public_key(self) -> str: ...

    @property
    def problem(self) -> str | None:
        """Why questions cannot be answered now; None as far as it is known."""
        ...

    async def survey(
        self, repo: str, base: str | None, files: Sequence[str], title: str, description: str
    ) -> Survey:
        """The facts that a handoff is made from. `files` are the patterns that the task will own,
        `base` is a revision; None means HEAD.

        Raises UnknownRepo, or InvalidRequest for a pattern, a base or a criterion that is unusable.
        """
        ...

    async def identity(self, repo: str) -> str:
        """The same for all work trees of a repository. Raises UnknownRepo."""
        ...

    async def commit_of(self, repo: str, rev: str) -> str | None:
        """The full id of the commit that a revision names. None: there is none."""
        ...

    async def is_on_branch(self, repo: str, commit: str, branch: str) -> bool: ...

    async def is_squash_of(
        self, repo: str, squash: str, commit: str, accepted: list[str], branch: str
    ) -> bool:
        """Whether a commit on the branch has the content of one of the accepted commits, and that
        one contains `commit`."""
        ...

    async def work_since(self, repo: str, base: str, rev: str) -> WorkSinceBase | None:
        """The commits from `base` to a revision, and the files that differ. None: there is no such
        revision."""
        ...

    async def diff(self, repo: str, base: str, rev: str) -> WorkDiff | None:
        """The differences from a commit to another one, or to a branch: `refs/heads/NAME`. None:
        there is no such commit, or no such branch."""
        ...

    async def ci_report(self, demand: CiDemand, sha: str) -> CiReport:
        """The results of CI for a commit, with the logs of failed jobs. Raises CiUnavailable."""
        ...

    async def restart_ci(self, demand: CiDemand, sha: str) -> bool:
        """Restart the runs of a commit that have not ended. False: this CI cannot restart them.
        Raises CiUnavailable."""
        ...

    async def context_material(self, request: ContextRequest) -> ContextMaterial:
        """The reading list of a new worker. Raises InvalidRequest for a plan that does not
        exist."""
        ...

    async def find_breakage(self, question: BreakageQuestion) -> BreakageFinding:
        """Which upstream push broke a repo. Raises CiUnavailable."""
        ...

    async def verify(self, job: VerificationJob) -> Verdict:
        """Raises UnknownRepo or EvidenceUnavailable if the claim cannot be checked."""
        ...

    def replace_key(self, retired: Collection[str]) -> bool:
        """Sign with another key if the own one is among the retired; whether it was. Reads and
        writes files. Raises EvidenceUnavailable if there is no other one."""
        ...

    def sign(self, body: ReceiptBody) -> SignedReceipt: ...

    def attest(self, body: StatementBody) -> Envelope:
        """A receipt or a landing as an in-toto statement, in a signed envelope."""
        ...

    async def close(self) -> None: ...


class NoEvidence:
    """The evidence of a coordinator that was started without one: every question fails."""

    own_repo: str | None = None
    public_key = ""
    problem: str | None = None

    def __getattr__(self, name: str) -> Any:
        return _refuse

    async def close(self) -> None:
        pass


def _refuse(*_: object) -> NoReturn:
    raise EvidenceUnavailable("this coordinator was started without evidence")
