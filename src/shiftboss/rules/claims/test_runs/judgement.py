"""Whether a run of tests is a pass: what must be reported, and compared with the base."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from shiftboss.protocol.claims.verdicts import Outcome
from shiftboss.rules.claims.criteria import CommandResult
from shiftboss.rules.claims.test_runs.run_report import RunReport, missing_tests, name_tests
from shiftboss.rules.claims.test_runs.runners import RunnerName
from shiftboss.rules.documents.wording import pluralize

NOTHING_REPORTED: Final = (
    "it ended with exit code 0, but no known test runner reported its tests; "
    "the policy's test_summary can say how they are counted"
)


class CommandRun(NamedTuple):
    """A run of a test command. `report` is None if nothing was reported that is known."""

    runner: RunnerName | None
    must_report: bool
    result: CommandResult
    report: RunReport | None


class Judgement(NamedTuple):
    outcome: Outcome
    message: str


def judge_run(
    run: CommandRun,
    base: RunReport | None = None,
    changed: Mapping[str, str] = MappingProxyType({}),
) -> Judgement:
    """`base` is what the same command reported at the base, `changed` are the texts of the files
    that were changed since."""
    if run.result.exit_code != 0:
        return Judgement("failed", run.result.message)
    report = run.report
    if report is None and run.runner is None and not (base and base.ran):
        return Judgement("unverifiable", NOTHING_REPORTED)
    problem = _report_problem(run)
    if problem is None and base is not None and report is not None:
        problem = _difference(base, report, changed)
    if problem is not None:
        return Judgement("failed", problem)
    assert report is not None
    return Judgement("passed", f"exit code 0, {pluralize(report.passed, 'test')} passed")


def _report_problem(run: CommandRun) -> str | None:
    report = run.report
    if report is None:
        name = run.runner or "the test runner"
        return f"exit code 0, but {name} reported no tests: was it cut off?"
    if run.must_report and report.source != "report":
        return (
            f"exit code 0, but {run.runner} wrote no report: was it cut off, or does the command "
            "overrule where the report is written?"
        )
    if report.passed == 0:
        return "no test passed: all were skipped, or none was found"
    passed = {(test.file, test.name) for test in report.tests if test.outcome == "passed"}
    failed = [test for test in report.tests if test.outcome == "failed"]
    failed = [test for test in failed if (test.file, test.name) not in passed]  # a repetition
    if failed:
        return f"exit code 0, but {pluralize(len(failed), 'test')} failed: {name_tests(failed)}"
    return None


def _difference(base: RunReport, now: RunReport, changed: Mapping[str, str]) -> str | None:
    """Why the run does not contain all tests that ran at the base."""
    if base.tests and not now.tests:
        return "the tests were reported one by one at the base, but now only their number is"
    if base.tests:
        missing = missing_tests(base.tests, now.tests, changed)
        if not missing:
            return None
        return (
            f"{pluralize(len(missing), 'test')} that ran at the base "
            f"{'does' if len(missing) == 1 else 'do'} not pass now: {name_tests(missing)}; "
            "removed, skipped or renamed?"
        )
    if now.passed < base.ran:
        return (
            f"{pluralize(base.ran, 'test')} ran at the base, only {now.passed} pass now: "
            "were any removed or skipped?"
        )
    return None


def judge_base_tests(run: CommandRun, base: RunReport, laid_over: Collection[str]) -> Judgement:
    """The run with the test files of the base. The tests that ran at the base must pass, and all
    tests in the files that were laid over the commit. New tests may fail: they may need what the
    new versions of these files contain."""
    report = run.report
    if report is None:
        return Judgement("failed", f"the tests of the base were not reported: {run.result.message}")
    if not report.tests:
        passed = report.passed >= base.ran and run.result.exit_code == 0
        message = f"{report.passed} of {pluralize(base.ran, 'test')} of the base pass"
        return Judgement("passed" if passed else "failed", message)
    failing = missing_tests(base.tests, report.tests)
    known = {(test.file, test.name) for test in failing}
    failing += [
        test
        for test in report.tests
        if test.outcome == "failed"
        and test.file in laid_over
        and (test.file, test.name) not in known
    ]
    if failing:
        return Judgement(
            "failed",
            f"{pluralize(len(failing), 'test')} of the base "
            f"{'does' if len(failing) == 1 else 'do'} not pass in the version of the base: "
            f"{name_tests(failing)}",
        )
    return Judgement("passed", "the tests of the base pass in their version of the base")
