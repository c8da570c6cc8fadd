"""The check "held_out": tests that the worker has not seen pass as well."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from shiftboss.evidence.checks.canary import CANARIES_MAX, options_of, sabotaged_files
from shiftboss.evidence.mirror.overlays import Overlay, UnwritableCheckout
from shiftboss.protocol.claims.verdicts import CheckResult, TestTotals, VerificationJob, Violation
from shiftboss.protocol.handoffs import HeldOutTests, held_out_hash
from shiftboss.rules.claims.canaries.judgement import judge_canaries, passing_options
from shiftboss.rules.claims.canaries.sabotage import choose_sabotages
from shiftboss.rules.claims.criteria import parse_criterion
from shiftboss.rules.claims.held_out import (
    UNSABOTAGED,
    HeldOutResult,
    judge_held_out,
    passed_message,
    runs_tests,
)
from shiftboss.rules.claims.refusal_advice import DISPUTE
from shiftboss.rules.claims.test_runs.judgement import CommandRun
from shiftboss.rules.claims.test_runs.run_report import RunReport
from shiftboss.rules.claims.verdicts import CheckOutcome
from shiftboss.rules.claims.waivers import HELD_OUT_SUBJECT

SUBJECT: Final = HELD_OUT_SUBJECT
CANNOT_FAIL: Final = "held-out tests pass although they were sabotaged"
UNWRITABLE: Final = "the held-out tests could not be written over the checkout"
_HINT: Final = (
    "the work must be right for inputs that no visible test has; read the task again, and do not "
    "write code for the visible tests alone; if the task leaves open what is right, "
    f"{DISPUTE}"
)
_NOT_RUN_HINT: Final = (
    "the code must not end, skip or hide tests; if it does not, the contract may be wrong: "
    f"{DISPUTE}"
)


# Runs a command in a checkout with the held-out files. None if its setup fails.
RunWithFiles = Callable[[Overlay, Sequence[str]], Awaitable[CommandRun | None]]


async def check_held_out(
    run: RunWithFiles, job: VerificationJob, green: Mapping[str, TestTotals]
) -> CheckOutcome | None:
    """None if there are no held-out tests. `green` are the totals of the contract's criteria that
    run tests, without the held-out ones."""
    tests = job.held_out
    if tests is None:
        return None
    # Touched like sabotaged files, so that these cannot be told from the others.
    files = await asyncio.to_thread(sabotaged_files, tests.files)
    overlay = Overlay(files, after_setup=True)
    checked, runs = await _check(run, overlay, job, tests, green)
    if not checked.holds and job.policy.setup:
        # The criterion may run what the setup has made of the tests, such as a compiled copy. This
        # is tried only now, because the setup then runs again, without a network.
        overlay = Overlay(files, is_secret=True)
        built, runs = await _check(run, overlay, job, tests, green)
        checked = built if built.holds else checked
    if not checked.holds or job.policy.canaries == "off":
        return checked
    return await _sabotage(run, overlay, job, tests, checked, runs)


async def _sabotage(
    run: RunWithFiles,
    overlay: Overlay,
    job: VerificationJob,
    tests: HeldOutTests,
    checked: CheckOutcome,
    runs: Sequence[CommandRun | None],
) -> CheckOutcome:
    """Code that forges a report when it sees a test that it does not know is noticed here."""
    passed = _joined(runs)
    options = await asyncio.to_thread(options_of, tests.files)
    if passed.tests:
        options = await asyncio.to_thread(passing_options, options, passed)
    if not options:
        message = f"{checked.result.message}; {UNSABOTAGED}"
        update = {"outcome": "unverifiable", "message": message}
        return CheckOutcome(checked.result.model_copy(update=update))
    chosen = choose_sabotages(options, secrets.SystemRandom(), CANARIES_MAX)
    files = await asyncio.to_thread(sabotaged_files, tests.files, chosen)
    again = await _runs(run, overlay._replace(files=files), job, tests)
    sabotaged = _joined(again)
    ended = next((each for each in again if each is not None), None)
    if ended is None or not sabotaged.tests:
        return checked if _exit_code(again) != 0 else _not_failing(checked)
    judged = judge_canaries(chosen, passed, ended._replace(report=sabotaged))
    as_expected = all(canary.outcome == "failed" for canary in judged.canaries)
    return checked if as_expected and _exit_code(again) != 0 else _not_failing(checked)


def _joined(runs: Sequence[CommandRun | None]) -> RunReport:
    """Several criteria may share the held-out tests: each of these must run in one of them."""
    reports = [report for each in runs if (report := _report(each)) is not None]
    return RunReport.of_tests("report", [test for report in reports for test in report.tests])


async def _runs(
    run: RunWithFiles, overlay: Overlay, job: VerificationJob, tests: HeldOutTests
) -> list[CommandRun | None]:
    criteria = [tests.criterion] if tests.criterion is not None else _test_criteria(job)
    return [await run(overlay, _argv(text)) for text in criteria]


async def _check(
    run: RunWithFiles,
    overlay: Overlay,
    job: VerificationJob,
    tests: HeldOutTests,
    green: Mapping[str, TestTotals],
) -> tuple[CheckOutcome, Sequence[CommandRun | None]]:
    try:
        runs = await _runs(run, overlay, job, tests)
    except UnwritableCheckout:
        return _outcome(HeldOutResult(0, 0, 0, UNWRITABLE), ""), ()
    visible = None
    if tests.criterion is None:
        visible = _sum([green[text] for text in _test_criteria(job) if text in green])
    reports = [report for each in runs if (report := _report(each)) is not None]
    result = await asyncio.to_thread(
        judge_held_out,
        tests.files,
        _joined(runs).tests,
        _sum([report.totals for report in reports]),
        _exit_code(runs),
        visible,
    )
    return _outcome(result, held_out_hash(tests), runs), runs


def _report(run: CommandRun | None) -> RunReport | None:
    """Not what was only printed, if the runner writes reports: code under test can print, too."""
    if run is None or run.report is None:
        return None
    return run.report if run.report.source == "report" or not run.must_report else None


def _exit_code(runs: Sequence[CommandRun | None]) -> int | None:
    """The first that is not 0. A command whose setup failed has none."""
    codes = [run.result.exit_code if run is not None else None for run in runs]
    return next((code for code in codes if code != 0), 0)


def _not_failing(checked: CheckOutcome) -> CheckOutcome:
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
        # In seconds: the exact time could tell the worker something.
        duration_ms=round(sum(each.duration_ms for each in ended), -3),
        sandbox=next((each.sandbox for each in ended), None),
        tests=TestTotals(source=source, ran=result.ran, passed=result.passed) if source else None,
    )
    if problem is None:
        return CheckOutcome(checked)
    hint = _HINT if result.ran else _NOT_RUN_HINT
    return CheckOutcome(checked, [Violation(check="held_out", message=problem, hint=hint)])
