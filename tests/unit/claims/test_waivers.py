"""What a waiver can be about."""

from __future__ import annotations

import pytest

from shiftboss.errors import InvalidRequest
from shiftboss.protocol.verdicts import CheckName
from shiftboss.rules.claims.waivers import HELD_OUT_SUBJECT, check_waiver

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
