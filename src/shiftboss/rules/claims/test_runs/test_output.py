"""Reads the tests that runners print: one by one if they do, otherwise the numbers in summaries."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from shiftboss.rules.claims.test_runs.run_report import CaseOutcome, ReportedTest, RunReport
from shiftboss.rules.claims.test_runs.runners import RunnerName
from shiftboss.rules.claims.test_runs.summaries import count_tests, plain_lines

# `test_add (tests.test_sums.Sums.test_add) ... ok`; before Python 3.11 without the last name. The
# outcome may be on a later line, after a description or after what the test printed.
_UNITTEST: Final = re.compile(r"(?:^|\n)(?P<test>\w+) \((?P<class>[\w.<>]+)\)")
_UNITTEST_OUTCOME: Final = re.compile(
    r"(?:^|\s)(?P<outcome>ok|FAIL|ERROR|skipped .*|expected failure|unexpected success)$",
    re.MULTILINE,
)
_UNITTEST_RAN: Final = re.compile(r"\n-{70}\nRan (\d+) tests? in ")
_UNITTEST_END: Final = re.compile(r"\n(?:={70}|-{70})\n")
_GO_TEST: Final = re.compile(r"^(?P<indent>[ ]*)--- (?P<outcome>PASS|SKIP|FAIL): (?P<name>\S+)")
_GO_PACKAGE: Final = re.compile(r"^(?:ok|FAIL)[ ]*\t(?P<package>[^\t\n]+)\t")
_CARGO_BINARY: Final = re.compile(
    r"^\s*(?:Running (?:unittests )?(?P<file>\S+)|Doc-tests (?P<doc>\S+))"
)
_CARGO_TEST: Final = re.compile(r"^test (?P<name>.+?) \.\.\. (?P<outcome>ok|FAILED|ignored.*)$")
_OUTCOMES: Final[dict[str, CaseOutcome]] = {
    "ok": "passed",
    "PASS": "passed",
    "FAIL": "failed",
    "FAILED": "failed",
    "ERROR": "failed",
    "unexpected success": "failed",
}


def printed_report(
    runner: RunnerName | None, output: str, template: str | None = None
) -> RunReport | None:
    """What the output tells about the tests of a run. None: nothing that is known. `template` says
    how the summary of an unknown runner looks."""
    tests: list[ReportedTest] = []
    match runner:
        case "unittest":
            tests = list(_unittest_tests(output))
        case "go":
            tests = list(_go_tests(output))
        case "cargo":
            tests = list(_cargo_tests(output))
        case _:
            pass
    if tests:
        return RunReport.of_tests("output", tests)
    counts = count_tests(output, template, is_unittest=runner == "unittest")
    if counts is None:
        return None
    return RunReport("summary", (), counts.ran, counts.passed)


def _unittest_tests(output: str) -> Iterator[ReportedTest]:
    """Nothing if the lines do not add up to what the runner has counted: then the code under test
    printed in between, and the summary is more exact."""
    text = "\n" + "\n".join(plain_lines(output))
    count = _UNITTEST_RAN.search(text)
    end = _UNITTEST_END.search(text)
    if count is None or end is None:
        return
    headers = list(_UNITTEST.finditer(text, 0, end.start()))
    tests: list[ReportedTest] = []
    for number, header in enumerate(headers):
        until = headers[number + 1].start() if number + 1 < len(headers) else end.start()
        outcomes = _UNITTEST_OUTCOME.findall(text[header.end() : until])
        if outcomes:
            name = f"{header['class'].removesuffix('.' + header['test'])}.{header['test']}"
            tests.append(ReportedTest(None, name, _OUTCOMES.get(outcomes[-1], "skipped")))
    if len(tests) == int(count[1]):
        # A module that cannot be imported is reported like a test.
        yield from (test for test in tests if not test.name.startswith("unittest.loader."))


def _go_tests(output: str) -> Iterator[ReportedTest]:
    """Without -v only failures are printed, so a package without any passed test has no lines."""
    of_package: list[tuple[str, CaseOutcome]] = []
    for line in plain_lines(output):
        if test := _GO_TEST.match(line):
            of_package.append((test["name"], _OUTCOMES.get(test["outcome"], "skipped")))
        elif package := _GO_PACKAGE.match(line):
            for name, outcome in of_package:
                yield ReportedTest(None, f"{package['package']} {name}", outcome)
            of_package = []


def _cargo_tests(output: str) -> Iterator[ReportedTest]:
    binary = ""
    for line in plain_lines(output):
        if binary_line := _CARGO_BINARY.match(line):
            binary = binary_line["file"] or f"doc-tests {binary_line['doc']}"
        elif test := _CARGO_TEST.match(line):
            outcome = _OUTCOMES.get(test["outcome"], "skipped")
            # Integration tests are in the file of their name; others can be in any module.
            file = binary if binary.startswith("tests/") else None
            name = test["name"].removesuffix(" - should panic")
            yield ReportedTest(file, name if file else f"{binary} {name}", outcome)
