"""What a waiver can be about. One whose subject no check has would never apply."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from shiftboss.errors import InvalidRequest
from shiftboss.protocol.claims.verdicts import CheckName, Verdict, Waiver
from shiftboss.protocol.handoffs import VerificationPolicy
from shiftboss.rules.claims.held_out import runs_tests
from shiftboss.rules.claims.verdicts import EVERYTHING, is_waived
from shiftboss.rules.documents.wording import did_you_mean

# Stands for the held-out criterion, which names paths that the worker must not see.
HELD_OUT_SUBJECT: Final = "held-out tests"

_LISTED_MAX: Final = 5
_HINT: Final = "without a subject, the whole check is waived"


def check_waiver(check: CheckName, subject: str, criteria: Sequence[str]) -> None:
    """Refuse what no verdict on a contract with these criteria could be about. Raises
    InvalidRequest. Any path and any CI job may be named: nobody knows which there will be."""
    if check == "commit":
        raise InvalidRequest(
            "check: the commit check cannot be waived, because the commit is what is accepted",
            field="check",
            hint="claim a commit that is in the repository, by its full hash",
        )
    subjects = _subjects(check, criteria)
    if subjects is None or subject in (EVERYTHING, *subjects):
        return
    guess = did_you_mean(subject, subjects)
    raise InvalidRequest(
        f"subject: the check {check} of this task has no subject {subject!r}{guess}",
        field="subject",
        hint=f"{_listed(subjects)}; {_HINT}" if subjects else _HINT,
    )


def _subjects(check: CheckName, criteria: Sequence[str]) -> Sequence[str] | None:
    """Those that the check can have; None if it can have others that are not known."""
    match check:
        case "criterion":
            return criteria
        case "base_tests" | "canary" | "mutants":
            return list(filter(runs_tests, criteria))
        case "held_out":
            return [HELD_OUT_SUBJECT]
        case "ancestry" | "branch" | "review":
            return []
        case _:
            return None


def _listed(subjects: Sequence[str]) -> str:
    more = len(subjects) - _LISTED_MAX
    shown = ", ".join(repr(subject) for subject in subjects[:_LISTED_MAX])
    return f"it has {shown} and {more} more" if more > 0 else f"it has {shown}"


def covers_refusal(verdict: Verdict, policy: VerificationPolicy, waivers: Sequence[Waiver]) -> bool:
    """Whether the waivers leave nothing of what the claim was refused for."""
    outcomes = {"failed"} if policy.unverifiable == "allow" else {"failed", "unverifiable"}
    refused = [result for result in verdict.checks if result.outcome in outcomes]
    return all(
        _is_covered(
            check,
            [result.subject for result in refused if result.check == check],
            [violation.path for violation in verdict.violations if violation.check == check],
            waivers,
        )
        for check in {violation.check for violation in verdict.violations}
    )


def _is_covered(
    check: CheckName,
    subjects: Sequence[str | None],
    paths: Sequence[str | None],
    waivers: Sequence[Waiver],
) -> bool:
    """A violation names its path, but not the criterion that it is about: the check does."""
    return any(
        named and all(is_waived(waivers, check, [name]) for name in named)
        for named in (subjects, paths)
    )
