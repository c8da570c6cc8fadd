"""The commands of a contract, run in a clean checkout of the claimed commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shiftboss.evidence.checkout import Checkout, clean_checkout
from shiftboss.evidence.commands import Limits, checkout_environment, run_command
from shiftboss.evidence.disposal import Disposal
from shiftboss.evidence.mirror import Mirror
from shiftboss.protocol.verdict import CheckName, CheckResult, VerificationJob, Violation
from shiftboss.rules.criteria import (
    CheckableCriterion,
    outcome_of,
    parse_command,
    parse_criterion,
)
from shiftboss.rules.verdicts import Checked, is_waived, not_made

FREE_TEXT = "no command can check it"


async def check_criteria(
    mirror: Mirror, commit: str, job: VerificationJob, disposal: Disposal
) -> list[Checked]:
    """First what prepares the checkout, then the criteria, in the order of the contract."""
    planned: list[tuple[CheckName, str]] = [
        *(("setup", one) for one in job.policy.setup),
        *(("criterion", one) for one in job.contract.success_criteria),
    ]
    if not any(_is_command(check, text) for check, text in planned):
        return [not_made(check, FREE_TEXT, text) for check, text in planned]
    async with clean_checkout(mirror, commit, disposal) as checkout:
        return await _run_all(planned, checkout, job)


def not_run(job: VerificationJob, reason: str) -> list[Checked]:
    """All of them, with the reason why nobody looked."""
    return [
        *(not_made("setup", reason, one) for one in job.policy.setup),
        *(not_made("criterion", reason, one) for one in job.contract.success_criteria),
    ]


async def _run_all(
    planned: Sequence[tuple[CheckName, str]], checkout: Checkout, job: VerificationJob
) -> list[Checked]:
    environment = checkout_environment(job.policy.environment, checkout.home)
    limits = Limits(seconds=job.policy.command_seconds, megabytes=job.policy.command_megabytes)
    checks: list[Checked] = []
    broken: str | None = None
    for check, text in planned:
        if broken is not None:
            checks.append(not_made(check, f"not run, the setup failed: {broken}", text))
            continue
        checked = await _run(check, text, checkout, limits, environment)
        checks.append(checked)
        if check == "setup" and not checked.holds and not is_waived(job.waivers, check, [text]):
            broken = text
    return checks


async def _run(
    check: CheckName, text: str, checkout: Checkout, limits: Limits, environment: Mapping[str, str]
) -> Checked:
    try:
        criterion = _command_of(check, text)
    except ValueError as error:
        return _failed(CheckResult(check=check, outcome="failed", message=str(error), subject=text))
    if criterion is None:
        return not_made(check, FREE_TEXT, text)
    done = await run_command(criterion.argv, checkout.files, limits, environment)
    outcome, message = outcome_of(criterion, done)
    result = CheckResult(
        check=check,
        outcome=outcome,
        message=message,
        subject=text,
        exit_code=done.exit_code,
        output_tail=done.output_tail,
        duration_ms=done.duration_ms,
    )
    return Checked(result) if outcome != "failed" else _failed(result)


def _command_of(check: CheckName, text: str) -> CheckableCriterion | None:
    """A command of the setup is written without the words before a criterion's."""
    if check == "setup":
        return CheckableCriterion("command", parse_command(text))
    return parse_criterion(text)


def _is_command(check: CheckName, text: str) -> bool:
    try:
        return _command_of(check, text) is not None
    except ValueError:
        return True  # one that cannot be run; it is to fail as such


def _failed(result: CheckResult) -> Checked:
    violation = Violation(
        check=result.check,
        message=f"{result.subject}: {result.message}",
        hint="run it in a fresh clone of the commit; the end of its output is with the check",
    )
    return Checked(result, [violation])
