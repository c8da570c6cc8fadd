"""What a waiver can be about."""

from __future__ import annotations

from typing import Literal

import pytest

from shiftboss.errors import InvalidRequest
from shiftboss.protocol.claims.verdicts import (
    CheckName,
    CheckResult,
    Outcome,
    Verdict,
    Violation,
    Waiver,
)
from shiftboss.protocol.handoffs import VerificationPolicy
from shiftboss.rules.claims.waivers import HELD_OUT_SUBJECT, check_waiver, covers_refusal
from tests.repos import waiver

pytestmark = pytest.mark.requirement("HO-09")

TESTS = "Tests pass: python3 -m unittest"
CRITERIA = [TESTS, "Command passes: make lint"]


@pytest.mark.parametrize(
    ("check", "subject"),
    [
        ("scope", "README.md"),
        ("tests_kept", "tests/test_a.py"),
        ("setup", "pip install ."),
        ("ci", "build"),
        ("criterion", "Command passes: make lint"),
        ("canary", TESTS),
        ("mutants", TESTS),
        ("base_tests", TESTS),
        ("held_out", HELD_OUT_SUBJECT),
        ("branch", "*"),
        ("canary", "*"),
    ],
)
def test_a_waiver_may_name_what_its_check_can_be_about(check: CheckName, subject: str) -> None:
    check_waiver(check, subject, CRITERIA)


@pytest.mark.parametrize(
    ("check", "subject"),
    [
        ("criterion", "Command passes: make"),
        ("canary", "nothing"),
        ("mutants", "Command passes: make lint"),
        ("base_tests", "tests/test_a.py"),
        ("held_out", TESTS),
        ("branch", "main"),
        ("ancestry", "x"),
    ],
)
def test_a_subject_that_the_check_cannot_have_is_refused(check: CheckName, subject: str) -> None:
    with pytest.raises(InvalidRequest, match=f"the check {check} of this task") as refused:
        check_waiver(check, subject, CRITERIA)
    assert refused.value.field == "subject"
    assert "without a subject, the whole check is waived" in str(refused.value.hint)


def test_a_misspelled_criterion_is_suggested() -> None:
    with pytest.raises(InvalidRequest, match="did you mean 'Tests pass: python3 -m unittest'"):
        check_waiver("canary", "Tests pass: python -m unittest", CRITERIA)


def result(check: CheckName, outcome: Outcome, subject: str | None = None) -> CheckResult:
    return CheckResult(check=check, outcome=outcome, message="m", subject=subject)


def violation(check: CheckName, path: str | None = None) -> Violation:
    return Violation(check=check, message="m", hint="h", path=path)


REFUSED = Verdict(
    accepted=False,
    base_commit="b",
    commit="c",
    tree="t",
    checks=[
        result("scope", "failed"),
        result("criterion", "failed", TESTS),
        result("criterion", "unverifiable", "It works"),
    ],
    violations=[violation("scope", "a.py"), violation("scope", "b.py"), violation("criterion")],
)
PATHS = (waiver("scope", "a.py"), waiver("scope", "b.py"))
IT_WORKS = waiver("criterion", "It works")


@pytest.mark.parametrize(
    ("waivers", "unverifiable", "covered"),
    [
        ([*PATHS, waiver("criterion", TESTS)], "allow", True),
        ([waiver("scope", "*"), waiver("criterion", "*")], "refuse", True),
        ([*PATHS, waiver("criterion", TESTS)], "refuse", False),
        ([*PATHS, waiver("criterion", TESTS), IT_WORKS], "refuse", True),
        ([*PATHS, IT_WORKS], "allow", False),
        ([PATHS[0], waiver("criterion", "*")], "allow", False),
        (PATHS, "allow", False),
        ([], "allow", False),
    ],
)
def test_waivers_cover_a_refusal_if_nothing_is_left_of_it(
    waivers: list[Waiver], unverifiable: Literal["allow", "refuse"], covered: bool
) -> None:
    policy = VerificationPolicy(unverifiable=unverifiable)
    assert covers_refusal(REFUSED, policy, waivers) is covered
