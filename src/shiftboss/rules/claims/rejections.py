"""Work that the operator has rejected: another claim of it is refused with the reason."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from shiftboss.protocol.claims.verdicts import RejectedWork, Verdict, VerificationJob, Waiver
from shiftboss.protocol.handoffs import Contract
from shiftboss.rules.claims.refusal_advice import DISPUTE
from shiftboss.rules.claims.verdicts import CheckOutcome, failed, is_waived, passed
from shiftboss.rules.documents.wording import printable_line

_HINT: Final = f"claim a new commit that does what the reason asks for, or {DISPUTE}"


def rejection_of(
    commit: str | None, tree: str | None, rejections: Iterable[RejectedWork]
) -> RejectedWork | None:
    """The rejection of this commit, or of another commit with the same files."""
    return next(
        (rejected for rejected in rejections if commit == rejected.commit or tree == rejected.tree),
        None,
    )


def check_rejections(job: VerificationJob, commit: str, tree: str | None) -> Sequence[CheckOutcome]:
    """The check "review". There is none if nothing was rejected, or the task only reads: what it
    claims is always the same."""
    if not job.rejections or not job.contract.files_owned:
        return ()
    rejected = rejection_of(commit, tree, job.rejections)
    if rejected is None:
        return (passed("review", "differs from the work that the operator has rejected"),)
    message = (
        f"the commit {_named(commit, rejected)} by {printable_line(rejected.rejected_by)}: "
        f"{printable_line(rejected.reason)}"
    )
    return (failed("review", message, _HINT, commit),)


def is_rejected(
    verdict: Verdict, contract: Contract, rejections: Sequence[RejectedWork], waivers: list[Waiver]
) -> bool:
    """Whether a verdict is about work that was rejected and not waived since. A verifier that does
    not know of rejections leaves the check out."""
    if not contract.files_owned or is_waived(waivers, "review", ()):
        return False
    return rejection_of(verdict.commit, verdict.tree, rejections) is not None


def _named(commit: str, rejected: RejectedWork) -> str:
    if commit == rejected.commit:
        return f"{commit[:12]} was rejected"
    return f"{commit[:12]} has the same files as {rejected.commit[:12]}, which was rejected"
