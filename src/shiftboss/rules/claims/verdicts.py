"""From checks to a verdict: waivers, acceptance, and verdicts short enough for a request."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from shiftboss.protocol.claims.verdicts import (
    CheckName,
    CheckResult,
    Mutant,
    MutantTotals,
    Verdict,
    Violation,
    Waiver,
)
from shiftboss.protocol.handoffs import VerificationPolicy
from shiftboss.rules.claims.refusal_advice import DISPUTE

EVERYTHING = "*"


class CheckOutcome(NamedTuple):
    """The result of a check, with its violations if it failed. `missing`: it failed only because
    this verifier lacks something that another one may have."""

    result: CheckResult
    violations: Sequence[Violation] = ()
    missing: str | None = None

    @property
    def holds(self) -> bool:
        return self.result.outcome != "failed"


def totals(mutants: Sequence[Mutant]) -> MutantTotals:
    killed = sum(mutant.killed_by is not None for mutant in mutants)
    return MutantTotals(tried=len(mutants), killed=killed)


def passed(check: CheckName, message: str) -> CheckOutcome:
    return CheckOutcome(CheckResult(check=check, outcome="passed", message=message))


def failed(check: CheckName, message: str, hint: str, commit: str | None = None) -> CheckOutcome:
    """A failed check with one violation, whose text is the message."""
    violation = Violation(check=check, message=message, hint=hint, commit=commit)
    return CheckOutcome(CheckResult(check=check, outcome="failed", message=message), [violation])


def unverifiable(check: CheckName, reason: str, subject: str | None = None) -> CheckOutcome:
    result = CheckResult(check=check, outcome="unverifiable", message=reason, subject=subject)
    return CheckOutcome(result)


def passed_unless_violated(
    check: CheckName, violations: Sequence[Violation], message_if_passed: str
) -> CheckOutcome:
    """Failed if there are violations, otherwise passed."""
    if not violations:
        return passed(check, message_if_passed)
    first = violations[0].message
    message = first if len(violations) == 1 else f"{first}, and {len(violations) - 1} more"
    return CheckOutcome(CheckResult(check=check, outcome="failed", message=message), violations)


def is_waived(waivers: Iterable[Waiver], check: str, subjects: Iterable[str | None]) -> bool:
    covered = {EVERYTHING, *(subject for subject in subjects if subject is not None)}
    return any(waiver.check == check and waiver.subject in covered for waiver in waivers)


def with_waivers(checked: CheckOutcome, waivers: Sequence[Waiver]) -> CheckOutcome:
    """Remove waived violations. The check is waived if none is left."""
    result = checked.result
    if not checked.violations:
        return checked
    remaining = [
        violation
        for violation in checked.violations
        if not is_waived(waivers, result.check, [violation.path, result.subject])
    ]
    if remaining:
        return checked._replace(violations=remaining)
    return CheckOutcome(result.model_copy(update={"outcome": "waived"}))


def with_policy(checked: CheckOutcome, policy: VerificationPolicy) -> CheckOutcome:
    """Add a violation to an unverifiable check, if the policy refuses unverifiable checks."""
    result = checked.result
    if result.outcome != "unverifiable" or policy.unverifiable == "allow":
        return checked
    violation = Violation(
        check=result.check,
        message=f"{result.subject or result.check} cannot be verified: {result.message}",
        hint=f"only the operator can change or waive what cannot be checked: {DISPUTE}",
    )
    return checked._replace(violations=[violation])


def is_accepted(checks: Sequence[CheckOutcome], policy: VerificationPolicy) -> bool:
    allowed = {"passed", "waived"}
    if policy.unverifiable == "allow":
        allowed.add("unverifiable")
    return all(check.result.outcome in allowed and not check.violations for check in checks)


def missing_here(checks: Sequence[CheckOutcome]) -> str | None:
    """What this verifier lacks, if the work fails for no other reason."""
    reasons = [check.missing for check in checks if not check.holds]
    return next(iter(reasons), None) if all(reasons) else None


def proves_green_ci(verdict: Verdict) -> bool:
    """Whether CI has passed for a commit on the branch.

    That can be so although the work is refused for another reason. If the operator has waived the
    check, the verdict is accepted on the operator's responsibility.
    """
    outcomes = [check.outcome for check in verdict.checks if check.check == "ci"]
    on_branch = any(
        check.check == "branch" and check.outcome == "passed" for check in verdict.checks
    )
    has_passed = bool(outcomes) and all(outcome == "passed" for outcome in outcomes)
    return verdict.accepted or (has_passed and on_branch)


def proves_held_out_tests(verdict: Verdict) -> bool:
    """Whether the held-out tests passed, or the operator has waived them. A verifier that does not
    know of them leaves the check out."""
    outcomes = [check.outcome for check in verdict.checks if check.check == "held_out"]
    return bool(outcomes) and all(outcome in ("passed", "waived") for outcome in outcomes)


# The server accepts requests of up to 256 KiB.
VERDICT_BYTES_MAX: Final = 240 * 1024
# Characters of each output, and entries of each list, that are kept. Tried in this order.
_LIMITS: Final = ((65_536, 1000), (8192, 1000), (2048, 300), (512, 100), (100, 20))


def truncate_verdict(verdict: Verdict, bytes_max: int = VERDICT_BYTES_MAX) -> Verdict:
    """The verdict with its evidence shortened, if it would be too long for a request."""
    for characters, entries in _LIMITS:
        shorter = _cut(verdict, characters, entries)
        if len(shorter.model_dump_json().encode()) <= bytes_max:
            break
    return shorter


def _cut(verdict: Verdict, characters: int, entries: int) -> Verdict:
    checks = [
        check.model_copy(update={"output_tail": check.output_tail[-characters:]})
        if check.output_tail is not None
        else check
        for check in verdict.checks
    ]
    return verdict.model_copy(
        update={
            "checks": checks,
            "changes": verdict.changes[:entries],
            "violations": _first(verdict.violations, entries),
        }
    )


def _first(violations: list[Violation], entries: int) -> list[Violation]:
    omitted = len(violations) - entries
    if omitted <= 0:
        return violations
    more = Violation(
        check=violations[entries].check,
        message=f"and {omitted} more violations",
        hint="fix the listed violations, then claim again",
    )
    return [*violations[:entries], more]
