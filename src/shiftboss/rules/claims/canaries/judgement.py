"""Whether sabotaged tests were reported as failed, and only those."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from shiftboss.protocol.claims.verdicts import Canary
from shiftboss.rules.claims.canaries.sabotage import Sabotage, fails_with
from shiftboss.rules.claims.refusal_advice import DISPUTE
from shiftboss.rules.claims.test_runs.judgement import CommandRun, Judgement
from shiftboss.rules.claims.test_runs.run_report import ReportedTest, RunReport, name_tests
from shiftboss.rules.documents.wording import pluralize

# Sabotages of each file.
Sabotages = Mapping[str, Sequence[Sabotage]]

_SEPARATOR: Final = re.compile(r" |::")
# Enough for packages and modules. A name with more could be written to waste time.
_SEPARATORS_MAX: Final = 50

_CANNOT_FAIL_HINT: Final = (
    "a test that cannot fail proves nothing: find what makes the sabotaged tests pass; if that is "
    f"not part of this work, {DISPUTE}"
)
_MISSING_HINT: Final = (
    "a failing test must not end or hide others: find what keeps the sabotaged tests from being "
    f"reported; if that is not part of this work, {DISPUTE}"
)
_DISTURBED_HINT: Final = (
    "find what makes these tests fail although they were not sabotaged: they must depend neither "
    f"on other tests nor on the text of their files; if that is not part of this work, {DISPUTE}"
)


class CanaryJudgement(NamedTuple):
    """`disturbed` are tests that do not pass although they were not sabotaged. `has_controls`:
    there are tests that were not sabotaged."""

    canaries: Sequence[Canary]
    disturbed: Sequence[ReportedTest]
    judgement: Judgement
    has_controls: bool = True

    @property
    def is_only_disturbed(self) -> bool:
        """Whether all sabotaged tests failed as they must."""
        as_expected = all(canary.outcome == "failed" for canary in self.canaries)
        return bool(self.disturbed) and as_expected


class _Index:
    """The tests of a report by file and name, so that finding those of a sabotage does not read the
    whole report. Runners that do not report the file put a package or a module before the name."""

    def __init__(self, tests: Iterable[ReportedTest]) -> None:
        self._tests: dict[tuple[str | None, str], list[ReportedTest]] = {}
        for test in tests:
            file, name = test.function
            for known in (name,) if file is not None else _endings(name):
                self._tests.setdefault((file, known), []).append(test)

    def tests_of(self, sabotage: Sabotage, path: str) -> list[ReportedTest]:
        named = self._tests.get((path, sabotage.test), [])
        return named + self._tests.get((None, sabotage.test), [])


def _endings(name: str) -> Iterator[str]:
    """The name, and what follows each of its last separators."""
    yield name
    for separator in list(_SEPARATOR.finditer(name))[-_SEPARATORS_MAX:]:
        yield name[separator.end() :]


def passing_options(options: Sabotages, green: RunReport) -> dict[str, list[Sabotage]]:
    """Those whose test passed with all its parameters; others may fail for their own reasons."""
    index = _Index(green.tests)
    return {
        path: passing
        for path, offered in options.items()
        if (passing := [option for option in offered if _has_passed(option, path, index)])
    }


def _has_passed(option: Sabotage, path: str, index: _Index) -> bool:
    return {test.outcome for test in index.tests_of(option, path)} == {"passed"}


def judge_canaries(
    chosen: Sabotages, green: RunReport, run: CommandRun, touched: Collection[str] = ()
) -> CanaryJudgement:
    """`green` is the run without sabotage, `touched` are the files that were changed.

    All tests of these files must be reported again: runners go on after a failure. Tests that
    others inherit fail wherever they are inherited.
    """
    tests = run.report.tests if run.report is not None else ()
    index = _Index(tests)
    canaries = [
        Canary(
            test=f"{path}::{sabotage.test}",
            change=sabotage.change,
            outcome=_outcome(index.tests_of(sabotage, path), sabotage),
        )
        for path, sabotages in chosen.items()
        for sabotage in sabotages
    ]
    sabotaged = {sabotage.test for some in chosen.values() for sabotage in some}
    passed = {(test.file, test.name) for test in green.tests if test.outcome == "passed"}
    reported = {test.function for test in tests}
    controls = [
        test
        for test in green.tests
        if test.outcome == "passed" and not any(fails_with(test.name, name) for name in sabotaged)
    ]
    failed = {(test.file, test.name) for test in tests if test.outcome == "failed"} & passed
    disturbed = [
        test
        for test in controls
        if (test.file, test.name) in failed
        or (test.file in touched and test.function not in reported)
    ]
    judgement = _judge(canaries, disturbed, run)
    return CanaryJudgement(canaries, disturbed, judgement, bool(controls))


def _judge(
    canaries: Sequence[Canary], disturbed: Sequence[ReportedTest], run: CommandRun
) -> Judgement:
    fooled = [canary.test for canary in canaries if canary.outcome == "passed"]
    missing = [canary.test for canary in canaries if canary.outcome == "missing"]
    failed = sum(canary.outcome == "failed" for canary in canaries)
    if fooled:
        return Judgement("failed", f"reported as passed although sabotaged: {', '.join(fooled)}")
    if run.result.exit_code == 0:
        return Judgement("failed", "the command ends with exit code 0 although tests are sabotaged")
    if missing:
        return Judgement(
            "failed",
            f"not reported when they are sabotaged: {', '.join(missing)} ({run.result.message})",
        )
    if disturbed:
        return Judgement(
            "failed",
            "these tests fail as soon as other tests are sabotaged or their file is touched: "
            f"{name_tests(disturbed)}",
        )
    sabotaged = pluralize(len(canaries), "sabotaged test")
    return Judgement("passed", f"{failed} of {sabotaged} failed, as they must")


def judge_unnamed(run: CommandRun, canaries: int, *, all_files: bool) -> Judgement:
    """For a runner that reports only numbers: one test of each file was sabotaged. Without all
    files, the command may run just those that could not be sabotaged."""
    if run.result.exit_code != 0:
        tests = "one of its tests is" if canaries == 1 else f"{canaries} of its tests are"
        return Judgement("passed", f"the command fails when {tests} sabotaged")
    if all_files:
        return Judgement("failed", "the command ends with exit code 0 although tests are sabotaged")
    return Judgement("unverifiable", "the tests that this command runs cannot be sabotaged safely")


def judge_touched(judgement: Judgement, touched: CommandRun | None) -> Judgement:
    """`touched` is a run in which test files were changed without any sabotage. Code that knows the
    test files could fail there, and lie elsewhere."""
    if touched is None or touched.result.exit_code == 0:
        return judgement
    return Judgement(
        "failed",
        "the command fails as soon as a comment in the test files is changed: "
        f"{touched.result.message}",
    )


def canary_hint(canaries: Sequence[Canary], exit_code: int | None) -> str:
    """What to do about canaries that were judged as failed, after a run with this exit code."""
    outcomes = {canary.outcome for canary in canaries}
    if "passed" in outcomes or exit_code == 0:
        return _CANNOT_FAIL_HINT
    return _MISSING_HINT if "missing" in outcomes else _DISTURBED_HINT


def _outcome(tests: Sequence[ReportedTest], sabotage: Sabotage) -> str:
    """A sabotage may be about some cases of a test only."""
    outcomes = {test.outcome for test in tests}
    if "failed" in outcomes and sabotage.cases == "some":
        return "failed"
    if "passed" in outcomes:
        return "passed"
    return "failed" if "failed" in outcomes else "missing"
