"""The check "ci": the results of CI for the claimed commit, job by job."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from shiftboss.errors import CiUnavailable
from shiftboss.protocol.ci import CiDemand, CiReport
from shiftboss.protocol.claims.verdicts import CheckResult, Violation
from shiftboss.rules.claims.verdicts import CheckOutcome
from shiftboss.rules.contract.ci_verdict import CiFinding, judge_ci_report

AskCi = Callable[[CiDemand, str], Awaitable[CiReport]]


async def check_ci(
    ask: AskCi, demand: CiDemand, commit: str
) -> tuple[list[CheckOutcome], CiReport]:
    """Raises CiUnavailable when CI does not answer: then there is no verdict."""
    report = await ask(demand, commit)
    return [_checked(finding, commit) for finding in judge_ci_report(report, demand)], report


def _checked(finding: CiFinding, commit: str) -> CheckOutcome:
    """A job that runs or waits is not done, so the claim is refused and the job named."""
    subject = finding.job
    if finding.outcome == "passed":
        result = CheckResult(check="ci", outcome="passed", message=finding.message, subject=subject)
        return CheckOutcome(result)
    result = CheckResult(check="ci", outcome="failed", message=finding.message, subject=subject)
    violation = Violation(
        check="ci", message=finding.message, hint=finding.hint or "see the run", commit=commit
    )
    return CheckOutcome(result, [violation])


async def no_ci(demand: CiDemand, sha: str) -> CiReport:
    """For a verifier that was started without CI."""
    raise CiUnavailable(
        f"this verifier cannot ask the CI of {demand.repo} about {sha[:12]}",
        reason="set_up",
        retry_after_seconds=60,
    )
