"""Which tests of a report are the sabotaged ones, and what their outcome means."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Literal

import pytest

from shiftboss.evidence.checks.proof import judged_tests
from shiftboss.protocol.claims.verdicts import Canary
from shiftboss.rules.claims.canaries.judgement import (
    canary_hint,
    judge_canaries,
    passing_options,
)
from shiftboss.rules.claims.canaries.sabotage import Sabotage
from shiftboss.rules.claims.criteria import CommandResult
from shiftboss.rules.claims.test_runs.judgement import CommandRun, Judgement
from shiftboss.rules.claims.test_runs.run_report import CaseOutcome, ReportedTest, RunReport

pytestmark = pytest.mark.requirement("OWN-13")


def sabotage(test: str) -> Sabotage:
    return Sabotage(test, 1, "changed", "value", 0, 0, "")


def report(*tests: ReportedTest) -> RunReport:
    return RunReport.of_tests("report", tests)


def run(*tests: ReportedTest, code: int = 1) -> CommandRun:
    result = CommandResult(code, False, False, "", 5, f"exit code {code}")
    return CommandRun("pytest", True, result, report(*tests))


@pytest.mark.parametrize(
    ("file", "name", "is_it"),
    [
        ("t.py", "test_a", True),
        ("t.py", "test_a[1-2]", True),
        ("u.py", "test_a", False),
        ("t.py", "Class::test_a", False),
        (None, "test_a", True),
        (None, "example.com/sums test_a", True),
        (None, "src/lib.rs sums::tests::test_a", True),
        (None, "sums.test_a", False),
        (None, "other_test_a", False),
    ],
)
def test_a_test_is_found_by_its_file_or_by_the_end_of_its_name(
    file: str | None, name: str, is_it: bool
) -> None:
    options = {"t.py": [sabotage("test_a")]}
    found = passing_options(options, report(ReportedTest(file, name, "passed")))
    assert found == (options if is_it else {})


@pytest.mark.parametrize("other", ["failed", "skipped"])
def test_a_test_that_does_not_pass_with_all_parameters_is_left_alone(other: CaseOutcome) -> None:
    tests = [ReportedTest("t.py", "test_a[1]", "passed"), ReportedTest("t.py", "test_a[2]", other)]
    assert passing_options({"t.py": [sabotage("test_a")]}, report(*tests)) == {}


@pytest.mark.parametrize(
    ("outcomes", "code", "words"),
    [
        (["failed", "passed"], 1, "what makes the sabotaged tests pass"),
        ([], 0, "what makes the sabotaged tests pass"),
        (["failed", "missing"], 1, "what keeps the sabotaged tests from being reported"),
        (["failed", "failed"], 1, "what makes these tests fail although they were not sabotaged"),
    ],
)
def test_the_hint_says_what_to_look_for_and_names_the_way_out(
    outcomes: Sequence[Literal["failed", "passed", "missing"]], code: int, words: str
) -> None:
    canaries = [Canary(test="t", change="c", outcome=outcome) for outcome in outcomes]
    hint = canary_hint(canaries, code)
    assert words in hint
    assert "dispute_contract (command: shiftboss dispute)" in hint


def test_a_worker_whose_tests_of_the_base_fail_is_told_the_way_out() -> None:
    judgement = Judgement("failed", "1 test of the base fails")
    (violation,) = judged_tests("base_tests", "Tests pass: pytest", run(), judgement).violations
    assert "dispute_contract (command: shiftboss dispute)" in violation.hint
    assert "expectations_change" in violation.hint


def test_thousands_of_tests_are_matched_in_linear_time() -> None:
    """A comparison of each option with each test would need a minute."""
    names = [f"test_{number}" for number in range(5000)]
    options = {"t.py": [sabotage(name) for name in names for _ in range(3)]}
    green = report(
        *(ReportedTest("t.py", f"{name}[1]", "passed") for name in names),
        *(ReportedTest(None, f"pkg {name}", "passed") for name in names),
    )
    started = time.process_time()
    assert len(passing_options(options, green)["t.py"]) == 15_000
    failed = [test._replace(outcome="failed") for test in green.tests[:1]]
    chosen = {"t.py": [sabotage("test_0")]}
    judged = judge_canaries(chosen, green, run(*failed, *green.tests[1:5000]))
    assert judged.judgement.outcome == "passed", judged.judgement
    assert time.process_time() - started < 2.0
