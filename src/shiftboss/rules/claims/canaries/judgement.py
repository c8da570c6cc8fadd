"""Whether sabotaged tests were reported as failed, and only those."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from shiftboss.protocol.verdicts import Canary
from shiftboss.rules.claims.canaries.sabotage import Sabotage, fails_with
from shiftboss.rules.claims.test_runs.judgement import CommandRun, Judgement
from shiftboss.rules.claims.test_runs.reported import Report, ReportedTest, name_tests

# The chosen sabotages of each file.
Chosen = Mapping[str, Sequence[Sabotage]]


class CanaryJudgement(NamedTuple):
    """`disturbed` are tests that failed although they were not sabotaged."""

    canaries: Sequence[Canary]
    disturbed: Sequence[ReportedTest]
    judgement: Judgement


def is_test_of(sabotage: Sabotage, path: str, test: ReportedTest) -> bool:
    """Runners that do not report the file put a package or a module before the name."""
    name = test.function[1]
    if test.file is not None:
        return test.file == path and name == sabotage.test
    return name == sabotage.test or name.endswith((f" {sabotage.test}", f"::{sabotage.test}"))


def passing_options(path: str, options: Sequence[Sabotage], green: Report) -> list[Sabotage]:
    """Those whose test passed with all its parameters; others may fail for their own reasons."""
    return [option for option in options if _has_passed(option, path, green)]


def _has_passed(option: Sabotage, path: str, green: Report) -> bool:
    outcomes = {test.outcome for test in green.tests if is_test_of(option, path, test)}
    return outcomes == {"passed"}


def judge_canaries(chosen: Chosen, green: Report, run: CommandRun) -> CanaryJudgement:
    """`green` is the run without sabotage.

    A runner may stop at the first failure, so a test may be missing if others have failed. Tests
    that others inherit fail wherever they are inherited.
    """
    tests = run.report.tests if run.report is not None else ()
    canaries = [
        Canary(
            test=f"{path}::{sabotage.test}",
            change=sabotage.change,
            outcome=_outcome([test for test in tests if is_test_of(sabotage, path, test)]),
        )
        for path, sabotages in chosen.items()
        for sabotage in sabotages
    ]
    sabotaged = {sabotage.test for some in chosen.values() for sabotage in some}
    passed = {(test.file, test.name) for test in green.tests if test.outcome == "passed"}
    disturbed = [
        test
        for test in tests
        if test.outcome == "failed"
        and (test.file, test.name) in passed
        and not any(fails_with(test.name, name) for name in sabotaged)
    ]
    return CanaryJudgement(canaries, disturbed, _judge(canaries, disturbed, run))


def _judge(
    canaries: Sequence[Canary], disturbed: Sequence[ReportedTest], run: CommandRun
) -> Judgement:
    fooled = [canary.test for canary in canaries if canary.outcome == "passed"]
    failed = sum(canary.outcome == "failed" for canary in canaries)
    if fooled:
        return Judgement("failed", f"reported as passed although sabotaged: {', '.join(fooled)}")
    if run.result.exit_code == 0:
        return Judgement("failed", "the command ends with exit code 0 although tests are sabotaged")
    if not failed:
        return Judgement(
            "failed", f"no sabotaged test was reported as failed: {run.result.message}"
        )
    if disturbed:
        return Judgement(
            "failed",
            "these tests fail as soon as other tests are sabotaged or their file is touched: "
            f"{name_tests(disturbed)}",
        )
    return Judgement("passed", f"{failed} of {len(canaries)} sabotaged tests failed, as they must")


def judge_unnamed(run: CommandRun, canaries: int, *, all_files: bool) -> Judgement:
    """For a runner that reports only numbers: one test of each file was sabotaged. Without all
    files, the command may run just those that could not be sabotaged."""
    if run.result.exit_code != 0:
        return Judgement("passed", f"the command fails when {canaries} of its tests are sabotaged")
    if all_files:
        return Judgement("failed", "the command ends with exit code 0 although tests are sabotaged")
    return Judgement("unverifiable", "the tests that this command runs cannot be sabotaged safely")


def _outcome(tests: Sequence[ReportedTest]) -> str:
    outcomes = {test.outcome for test in tests}
    if "passed" in outcomes:
        return "passed"
    return "failed" if "failed" in outcomes else "missing"
