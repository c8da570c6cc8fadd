"""From checks to a verdict: what a waiver changes, and when work is accepted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from shiftboss.protocol.handoffs import VerificationPolicy
from shiftboss.protocol.verdicts import CheckName, CheckResult, Verdict, Violation, Waiver

EVERYTHING = "*"


class Checked(NamedTuple):
    """A check that was made, with the reasons to refuse if it failed."""

    result: CheckResult
    violations: Sequence[Violation] = ()

    @property
    def holds(self) -> bool:
        return self.result.outcome != "failed"


def passed(check: CheckName, message: str) -> Checked:
    return Checked(CheckResult(check=check, outcome="passed", message=message))


def failed(check: CheckName, message: str, hint: str, commit: str | None = None) -> Checked:
    """For the one reason that is the message."""
    violation = Violation(check=check, message=message, hint=hint, commit=commit)
    return Checked(CheckResult(check=check, outcome="failed", message=message), [violation])


def not_made(check: CheckName, reason: str, subject: str | None = None) -> Checked:
    result = CheckResult(check=check, outcome="unverifiable", message=reason, subject=subject)
    return Checked(result)


def judged(check: CheckName, violations: Sequence[Violation], fine: str) -> Checked:
    """Failed if there are violations; `fine` is the message if there are none."""
    if not violations:
        return passed(check, fine)
    first = violations[0].message
    message = first if len(violations) == 1 else f"{first}, and {len(violations) - 1} more"
    return Checked(CheckResult(check=check, outcome="failed", message=message), violations)


def is_waived(waivers: Iterable[Waiver], check: str, subjects: Iterable[str | None]) -> bool:
    allowed = {EVERYTHING, *(one for one in subjects if one is not None)}
    return any(one.check == check and one.subject in allowed for one in waivers)


def with_waivers(checked: Checked, waivers: Sequence[Waiver]) -> Checked:
    """A check is waived when no reason to refuse is left."""
    result = checked.result
    if not checked.violations:
        return checked
    left = [
        one
        for one in checked.violations
        if not is_waived(waivers, result.check, [one.path, result.subject])
    ]
    if left:
        return checked._replace(violations=left)
    return Checked(result.model_copy(update={"outcome": "waived"}))


def with_policy(checked: Checked, policy: VerificationPolicy) -> Checked:
    """The reason to refuse that a criterion is which nobody can check, where the policy says so."""
    result = checked.result
    if result.outcome != "unverifiable" or policy.unverifiable == "allow":
        return checked
    violation = Violation(
        check=result.check,
        message=f"{result.subject or result.check} cannot be verified: {result.message}",
        hint="ask for a criterion that a command can check, or for a waiver",
    )
    return checked._replace(violations=[violation])


def is_accepted(checks: Sequence[Checked], policy: VerificationPolicy) -> bool:
    allowed = {"passed", "waived"}
    if policy.unverifiable == "allow":
        allowed.add("unverifiable")
    return all(one.result.outcome in allowed and not one.violations for one in checks)


def shows_green(verdict: Verdict) -> bool:
    """That the CI of the branch has passed, at a commit that is on it. It may be so where the work
    is refused for something else; and where the operator has waived it, the operator answers."""
    outcomes = [one.outcome for one in verdict.checks if one.check == "ci"]
    on_branch = any(one.check == "branch" and one.outcome == "passed" for one in verdict.checks)
    has_passed = bool(outcomes) and all(one == "passed" for one in outcomes)
    return verdict.accepted or (has_passed and on_branch)


# A verdict that fits into a request.


# A request has 256 KiB.
VERDICT_BYTES_MAX: Final = 240 * 1024
# How much is kept of each output, and how many changes and violations: first all, then less.
_STEPS: Final = ((65_536, 1000), (8192, 1000), (2048, 300), (512, 100), (100, 20))


def fitting(verdict: Verdict, bytes_max: int = VERDICT_BYTES_MAX) -> Verdict:
    """The same verdict with shorter evidence, where it would be too long."""
    for characters, entries in _STEPS:
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
    left_out = len(violations) - entries
    if left_out <= 0:
        return violations
    more = Violation(
        check=violations[entries].check,
        message=f"and {left_out} more violations",
        hint="mend those that are named, then claim again",
    )
    return [*violations[:entries], more]
