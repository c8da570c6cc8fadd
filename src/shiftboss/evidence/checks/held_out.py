"""The check "held_out": tests that the worker has not seen pass as well."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, NamedTuple

from shiftboss.protocol.handoffs import held_out_hash
from shiftboss.protocol.verdicts import CheckResult, TestTotals, VerificationJob, Violation
from shiftboss.rules.claims.criteria import parse_criterion
from shiftboss.rules.claims.held_out import (
    HeldOutCase,
    HeldOutResult,
    judge_run,
    passed_message,
    runs_tests,
)
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


class HeldOutRun(NamedTuple):
    """How a command with tests ended. `totals` is None if the runner reported no tests, `cases` is
    empty if it reported only their number."""

    exit_code: int | None
    cases: Sequence[HeldOutCase]
    totals: TestTotals | None
    duration_ms: int
    sandbox: str | None = None


# Runs a command in a clean checkout with these files written over it. Raises OSError if they cannot
# be written.
RunWithFiles = Callable[[Mapping[str, bytes], Sequence[str]], Awaitable[HeldOutRun]]


async def check_held_out(
    run: RunWithFiles, job: VerificationJob, green: Mapping[str, TestTotals]
) -> CheckOutcome | None:
    """None if there are no held-out tests. `green` are the totals of the contract's criteria that
    run tests, without the held-out ones."""
    tests = job.held_out
    if tests is None:
        return None
    own = tests.criterion
    criteria = [own] if own is not None else _test_criteria(job)
    overlay = {path: text.encode() for path, text in tests.files.items()}
    try:
        ended = _joined([await run(overlay, _argv(text)) for text in criteria])
    except OSError:  # the commit has a folder or a link where a file has to be
        return _outcome(HeldOutResult(0, 0, 0, UNWRITABLE), "")
    visible = None if own is not None else _sum([green[text] for text in criteria if text in green])
    result = await asyncio.to_thread(
        judge_run, tests.files, ended.cases, ended.totals, ended.exit_code, visible
    )
    return _outcome(result, held_out_hash(tests), ended)


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


def _joined(runs: Sequence[HeldOutRun]) -> HeldOutRun:
    """Several criteria may share the held-out tests: each of these must run in one of them."""
    return HeldOutRun(
        exit_code=next((run.exit_code for run in runs if run.exit_code != 0), 0),
        cases=[case for run in runs for case in run.cases],
        totals=_sum([run.totals for run in runs if run.totals is not None]),
        duration_ms=sum(run.duration_ms for run in runs),
        sandbox=next((run.sandbox for run in runs), None),
    )


def _sum(totals: Sequence[TestTotals]) -> TestTotals | None:
    if not totals:
        return None
    return TestTotals(
        source=totals[0].source,
        ran=sum(each.ran for each in totals),
        passed=sum(each.passed for each in totals),
        skipped=sum(each.skipped for each in totals),
    )


def _outcome(result: HeldOutResult, digest: str, ended: HeldOutRun | None = None) -> CheckOutcome:
    """Without the exit code and the output, which could tell more than how many tests fail."""
    problem = result.problem
    totals = ended.totals if ended is not None else None
    checked = CheckResult(
        check="held_out",
        outcome="passed" if problem is None else "failed",
        message=f"{passed_message(result)}; sha256 {digest}" if problem is None else problem,
        subject=SUBJECT,
        duration_ms=ended.duration_ms if ended is not None else 0,
        sandbox=ended.sandbox if ended is not None else None,
        tests=None
        if totals is None
        else TestTotals(source=totals.source, ran=result.ran, passed=result.passed),
    )
    if problem is None:
        return CheckOutcome(checked)
    hint = _HINT if result.ran else _NOT_RUN_HINT
    return CheckOutcome(checked, [Violation(check="held_out", message=problem, hint=hint)])
