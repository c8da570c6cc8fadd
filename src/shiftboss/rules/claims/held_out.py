"""Held-out tests: which sets of them are valid, and what a run of them proves.

A worker must not learn the content of these tests from their refusal. So a message says how many
of them fail, and never which, with what input, or with what output.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final, NamedTuple

from shiftboss.protocol.claims.verdicts import TestTotals
from shiftboss.protocol.handoffs import HeldOutTests
from shiftboss.rules.claims.criteria import parse_criterion
from shiftboss.rules.claims.kept_tests import is_test_file, scan_tests
from shiftboss.rules.claims.test_runs.run_report import ReportedTest
from shiftboss.rules.claims.test_scanners.source import ScannedTest
from shiftboss.rules.documents.wording import pluralize
from shiftboss.rules.paths.patterns import normalize_path, parents

# As JSON in ASCII, which is what some clients send. A request with the rest of the contract must
# fit into the server's limit.
HELD_OUT_BYTES_MAX: Final = 160 * 1024

NEEDS_CRITERION: Final = (
    "needs a `criterion`, such as `Tests pass: COMMAND`, because the task has no criterion that "
    "runs tests"
)
UNSABOTAGED: Final = "none of them can be sabotaged safely"
NOT_RUN: Final = "the held-out tests did not run"
COMMAND_FAILS: Final = "the command that runs the held-out tests fails"
_SEPARATOR: Final = re.compile(r"::|\.")


def invalid_paths(paths: Collection[str]) -> Iterator[tuple[str, str]]:
    """The paths that no file of a checkout can have, each with the reason, which reads well after
    the path."""
    for path in paths:
        try:
            normal = normalize_path(path)
        except ValueError as error:
            yield path, str(error)
            continue
        if normal.endswith("/"):
            yield path, "names a folder; name each file"
        elif normal != path:
            yield path, f"is written in an unusual way; write {normal}"
        elif any(above in paths for above in parents(path)):
            yield path, "is below another held-out file"


def criterion_problem(criterion: str | None, criteria: Sequence[str]) -> str | None:
    """Why nothing would run the held-out tests. `criteria` are those of the contract."""
    if criterion is None:
        return None if any(map(runs_tests, criteria)) else NEEDS_CRITERION
    try:
        parsed = parse_criterion(criterion)
    except ValueError as error:
        return str(error)
    if parsed is None or parsed.kind != "tests":
        return "must be `Tests pass: COMMAND`"
    return None


def runs_tests(criterion: str) -> bool:
    try:
        parsed = parse_criterion(criterion)
    except ValueError:
        return False
    return parsed is not None and parsed.kind == "tests"


def is_too_large(tests: HeldOutTests) -> bool:
    return len(json.dumps(tests.model_dump())) > HELD_OUT_BYTES_MAX


class HeldOutResult(NamedTuple):
    """`ran` counts the held-out tests that passed or failed. `failed` includes those that were
    skipped and those that are missing. `problem` is why the work is refused, None if it is not."""

    ran: int
    passed: int
    failed: int
    problem: str | None = None


def judge_held_out(
    files: Mapping[str, str],
    cases: Sequence[ReportedTest],
    totals: TestTotals | None,
    exit_code: int | None,
    visible: TestTotals | None = None,
) -> HeldOutResult:
    """What the run of the held-out `files` proves. `totals` are those of all tests of the run.

    `visible` are the totals of the same command without these files; None if the command is only
    for these files. They are needed for runners that do not say in which file a test is.
    """
    tests = {path: scan_tests(path, text) for path, text in files.items() if is_test_file(path)}
    if any(case.file is not None and is_test_file(case.file) for case in cases):
        result = _judge_by_file(tests, [case for case in cases if case.file in files])
    elif totals is not None:
        result = _judge_by_number([*chain(*tests.values())], totals, visible)
    else:
        result = HeldOutResult(0, 0, 0, NOT_RUN)
    if result.problem is None and exit_code != 0:
        return result._replace(problem=COMMAND_FAILS)
    return result


def _judge_by_file(
    tests: Mapping[str, Sequence[ScannedTest]], cases: Sequence[ReportedTest]
) -> HeldOutResult:
    """Each file must have run: the code under test could keep one of them from being found."""
    counted = [case for case in cases if not _is_skipped_by_itself(case, tests)]
    passed = sum(1 for case in counted if case.outcome == "passed")
    ran = passed + sum(1 for case in counted if case.outcome == "failed")
    missing = 0
    for path, scanned in tests.items():
        reported = _count_functions(path, [case for case in counted if case.file == path])
        missing += max(0, _count_enabled(scanned) - reported)
    ran_files = {case.file for case in counted if case.outcome != "skipped"}
    none_ran = any(_count_enabled(tests[path]) for path in tests.keys() - ran_files)
    known = sum(_count_enabled(scanned) for scanned in tests.values())
    return _finish(ran, passed, len(counted) - passed + missing, known, none_ran=none_ran)


def _is_skipped_by_itself(case: ReportedTest, tests: Mapping[str, Sequence[ScannedTest]]) -> bool:
    """The code under test can skip a test, which is as bad as a failure, unless the file itself
    disables the test."""
    name = _SEPARATOR.split(case.function[1])[-1]
    return case.outcome == "skipped" and any(
        test.off and _SEPARATOR.split(test.name)[-1] == name
        for test in tests.get(case.file or "", ())
    )


def _judge_by_number(
    scanned: Sequence[ScannedTest], totals: TestTotals, visible: TestTotals | None
) -> HeldOutResult:
    """The visible tests have passed without the held-out ones. So the others are held-out, and all
    that fail are counted as such."""
    passed = totals.passed - (visible.passed if visible is not None else 0)
    skipped = totals.skipped - (visible.skipped if visible is not None else 0)
    failed = totals.ran - totals.passed
    enabled = _count_enabled(scanned)
    skipped = max(0, skipped - (len(scanned) - enabled))
    passed = max(0, passed)
    missing = max(0, enabled - passed - failed - skipped) if visible is None else 0
    return _finish(passed + failed, passed, failed + skipped + missing, enabled)


def _count_functions(path: str, cases: Sequence[ReportedTest]) -> int:
    """In Python, the cases of a test with parameters differ only by these. In other languages two
    tests may have the same title, and a title may have brackets."""
    return len({case.function for case in cases}) if path.endswith(".py") else len(cases)


def _count_enabled(scanned: Sequence[ScannedTest]) -> int:
    return sum(1 for test in scanned if not test.off)


def _finish(
    ran: int, passed: int, failed: int, known: int, *, none_ran: bool = False
) -> HeldOutResult:
    """`known` is how many tests the files have. The message says no larger number: code under test
    that reports what it likes could tell the worker what it has read."""
    if none_ran or ran == 0:
        return HeldOutResult(ran, passed, failed, NOT_RUN)
    if failed == 0:
        return HeldOutResult(ran, passed, failed)
    if known == 0:
        return HeldOutResult(ran, passed, failed, "held-out tests fail")
    shown = min(failed, known)
    verb = "fails" if shown == 1 else "fail"
    return HeldOutResult(ran, passed, failed, f"{shown} of {known} held-out tests {verb}")


def passed_message(result: HeldOutResult) -> str:
    verb = "passes" if result.passed == 1 else "pass"
    return f"{pluralize(result.passed, 'held-out test')} {verb}"
