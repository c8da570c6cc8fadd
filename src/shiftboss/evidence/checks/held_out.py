"""The check "held_out": tests that the worker has not seen pass as well."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from shiftboss.errors import UnwritableCheckout
from shiftboss.evidence.mirror.overlays import Overlay
from shiftboss.protocol.handoffs import HeldOutTests, held_out_hash
from shiftboss.protocol.verdicts import CheckResult, TestTotals, VerificationJob, Violation
from shiftboss.rules.claims.criteria import parse_criterion
from shiftboss.rules.claims.held_out import (
    HeldOutResult,
    judge_held_out,
    passed_message,
    runs_tests,
)
from shiftboss.rules.claims.test_runs.judgement import CommandRun
from shiftboss.rules.claims.test_runs.reported import Report
from shiftboss.rules.claims.verdicts import CheckOutcome

# Stands for the held-out criterion, which names paths that the worker must not see.
SUBJECT: Final = "held-out tests"
CANNOT_FAIL: Final = "held-out tests pass although they were sabotaged"
UNWRITABLE: Final = "the held-out tests could not be written over the checkout"
_HINT: Final = (
    "the work must be right for inputs that no visible test has; read the task again, and do not "
    "write code for the visible tests alone"
)
_NOT_RUN_HINT: Final = (
    "the code must not end, skip or hide tests; if it does not, the contract may be wrong: ask its "
    "contact"
)


# Runs a command in a checkout with the held-out files. None if its setup fails.
RunWithFiles = Callable[[Overlay, Sequence[str]], Awaitable[CommandRun | None]]


async def check_held_out(
    run: RunWithFiles, job: VerificationJob, green: Mapping[str, TestTotals]
) -> CheckOutcome | None:
    """None if there are no held-out tests. `green` are the totals of the contract's criteria that
    run tests, without the held-out ones."""
    if job.held_out is None:
        return None
    files = {path: text.encode() for path, text in job.held_out.files.items()}
    checked = await _check(run, Overlay(files, after_setup=True), job, job.held_out, green)
    if checked.holds or not job.policy.setup:
        return checked
    # The criterion may run what the setup has made of the tests, such as a compiled copy. This is
    # tried only now, because the setup then runs again, without a network.
    built = await _check(run, Overlay(files, is_secret=True), job, job.held_out, green)
    return built if built.holds else checked


async def _check(
    run: RunWithFiles,
    overlay: Overlay,
    job: VerificationJob,
    tests: HeldOutTests,
    green: Mapping[str, TestTotals],
) -> CheckOutcome:
    own = tests.criterion
    criteria = [own] if own is not None else _test_criteria(job)
    try:
        runs = [await run(overlay, _argv(text)) for text in criteria]
    except UnwritableCheckout:
        return _outcome(HeldOutResult(0, 0, 0, UNWRITABLE), "")
    visible = None if own is not None else _sum([green[text] for text in criteria if text in green])
    reports = [report for each in runs if (report := _report(each)) is not None]
    result = await asyncio.to_thread(
        judge_held_out,
        tests.files,
        # Several criteria may share the held-out tests: each of these must run in one of them.
        [test for report in reports for test in report.tests],
        _sum([report.totals for report in reports]),
        _exit_code(runs),
        visible,
    )
    return _outcome(result, held_out_hash(tests), runs)


def _report(run: CommandRun | None) -> Report | None:
    """Not what was only printed, if the runner writes reports: code under test can print, too."""
    if run is None or run.report is None:
        return None
    return run.report if run.report.source == "report" or not run.must_report else None


def _exit_code(runs: Sequence[CommandRun | None]) -> int | None:
    """The first that is not 0. A command whose setup failed has none."""
    codes = [run.result.exit_code if run is not None else None for run in runs]
    return next((code for code in codes if code != 0), 0)


def not_failing(checked: CheckOutcome) -> CheckOutcome:
    """The held-out tests pass even when they are sabotaged."""
    result = checked.result.model_copy(update={"outcome": "failed", "message": CANNOT_FAIL})
    violation = Violation(check="held_out", message=CANNOT_FAIL, hint=_NOT_RUN_HINT)
    return CheckOutcome(result, [violation])


def _test_criteria(job: VerificationJob) -> list[str]:
    return [text for text in job.contract.success_criteria if runs_tests(text)]


def _argv(criterion: str) -> Sequence[str]:
    parsed = parse_criterion(criterion)
    assert parsed is not None, "a spawn with such a criterion is refused"
    return parsed.argv


def _sum(totals: Sequence[TestTotals]) -> TestTotals | None:
    if not totals:
        return None
    return TestTotals(
        source=totals[0].source,
        ran=sum(each.ran for each in totals),
        passed=sum(each.passed for each in totals),
        skipped=sum(each.skipped for each in totals),
    )


def _outcome(
    result: HeldOutResult, digest: str, runs: Sequence[CommandRun | None] = ()
) -> CheckOutcome:
    """Without the exit code and the output, which could tell more than how many tests fail."""
    problem = result.problem
    ended = [run.result for run in runs if run is not None]
    source = next((report.source for run in runs if (report := _report(run)) is not None), None)
    checked = CheckResult(
        check="held_out",
        outcome="passed" if problem is None else "failed",
        message=f"{passed_message(result)}; sha256 {digest}" if problem is None else problem,
        subject=SUBJECT,
        duration_ms=sum(each.duration_ms for each in ended),
        sandbox=next((each.sandbox for each in ended), None),
        tests=TestTotals(source=source, ran=result.ran, passed=result.passed) if source else None,
    )
    if problem is None:
        return CheckOutcome(checked)
    hint = _HINT if result.ran else _NOT_RUN_HINT
    return CheckOutcome(checked, [Violation(check="held_out", message=problem, hint=hint)])
