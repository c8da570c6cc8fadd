"""Counts the tests in the summaries that test runners print."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_COLOUR: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")

# Summaries are short. The worker controls the output, and a long line could slow a pattern down.
_LINE_CHARACTERS_MAX: Final = 300

_NEVER: Final = r"(?!)"
# A whole number: of a long row of digits, no pattern tries every part.
_NUMBER: Final = r"(?<!\d)(\d{1,9})"
_PASSED: Final = rf"{_NUMBER} passed"
_FAILED: Final = rf"{_NUMBER} failed"
_PYTEST: Final = (
    r"\d+ (?:subtests )?"
    r"(?:passed|failed|skipped|deselected|xfailed|xpassed|errors?|warnings?|rerun)"
)
# Summaries with the numbers of passed and failed tests. A number of zero may be left out.
_SUMMARIES: Final = tuple(
    (re.compile(summary, re.MULTILINE), re.compile(passed), re.compile(failed))
    for summary, passed, failed in (
        # pytest: `=== 3 passed, 1 skipped in 0.12s ===`, without the frame with -q
        (
            rf"^=*[ ]*(?:{_PYTEST}, )*{_PYTEST} in \d+\.\d+s\b",
            rf"{_NUMBER} (?:subtests )?x?passed",
            rf"{_NUMBER} (?:subtests )?failed",
        ),
        (r"^=*[ ]*no tests ran in \d", _NEVER, _NEVER),
        # jest: `Tests:       1 skipped, 2 passed, 3 total`
        (r"^[ ]*Tests:[ ].*(?<!\d)\d{1,9} total", _PASSED, _FAILED),
        (r"^[ ]*No tests found, exiting with code 0", _NEVER, _NEVER),
        # vitest: `      Tests  2 passed | 1 skipped (3)`
        (r"^[ ]*Tests[ ]{2,}(?:no tests|.*\(\d+\))", _PASSED, _FAILED),
        (r"^[ ]*No test files found, exiting with code 0", _NEVER, _NEVER),
        # mocha: `  3 passing (5ms)`, then pending and failing ones
        (
            r"^[ ]*\d+ passing \([^\n]*(?:\n[ ]*\d+ (?:pending|failing))*",
            rf"{_NUMBER} passing",
            rf"{_NUMBER} failing",
        ),
        # bun test: ` 3 pass`, then ` 1 skip`, ` 0 fail`
        (
            r"^[ ]*\d+ pass(?:\n[ ]*\d+ (?:skip|todo|fail))*$",
            rf"{_NUMBER} pass\b",
            rf"{_NUMBER} fail\b",
        ),
        # node --test and other TAP: `# pass 3`, `# fail 0`
        (
            r"^(?:ℹ|#)[ ]+pass[ ]+\d+(?:\n(?:ℹ|#)[ ]+fail[ ]+\d+)?$",
            r"pass[ ]+(\d+)",
            r"fail[ ]+(\d+)",
        ),
        # cargo test: one line for each binary
        (r"^test result: (?:ok|FAILED)\. \d+ passed; \d+ failed;", _PASSED, _FAILED),
        # deno test: `ok | 3 passed | 0 failed (5ms)`
        (r"^(?:ok|FAILED) \| \d+ passed[^\n]*", _PASSED, _FAILED),
    )
)

_UNITTEST: Final = re.compile(
    r"^Ran (\d+) tests? in [^\n]*\n+(?:(?:OK|FAILED)(?: \(([^)\n]*)\))?|NO TESTS RAN[^\n]*)$",
    re.MULTILINE,
)
_UNITTEST_NOT_RUN: Final = re.compile(r"(?:skipped|expected failures)=(\d+)")
_UNITTEST_FAILED: Final = re.compile(r"(?:failures|errors)=(\d+)")

_GO_PACKAGE: Final = re.compile(
    r"^(?:(?:ok|FAIL)[ ]*\t[^\t\n]+\t[^\n]*|\?[ ]*\t[^\n]*\[no test files\])$", re.MULTILINE
)
_GO_EMPTY: Final = ("[no test files]", "[no tests to run]")
_GO_TEST: Final = re.compile(r"^[ ]*--- (PASS|SKIP|FAIL): ", re.MULTILINE)


class Counts(NamedTuple):
    """`ran` counts tests that passed or failed, without skipped tests and expected failures."""

    ran: int
    passed: int


def plain_lines(output: str) -> list[str]:
    """Lines of a length that summaries have, without colours."""
    lines = _COLOUR.sub("", output).splitlines()
    return [line for line in lines if len(line) <= _LINE_CHARACTERS_MAX]


def count_tests(
    output: str, template: str | None = None, *, is_unittest: bool = False
) -> Counts | None:
    """The sum over all summaries in the output, or None if it has no known summary.

    `template` says how the summary of another runner looks, such as `{passed} checks passed`. Then,
    and if the runner is known to be unittest, only its last summary counts: the code under test can
    print others before it.
    """
    text = "\n".join(plain_lines(output))
    if template is not None:
        counts = _template_counts(text, template)
    elif is_unittest:
        counts = _unittest_counts(text)[-1:]
    else:
        counts = [*_pattern_counts(text), *_unittest_counts(text), *_go_counts(text)]
    if not counts:
        return None
    return Counts(sum(count.ran for count in counts), sum(count.passed for count in counts))


def _template_counts(text: str, template: str) -> list[Counts]:
    pattern = re.escape(template)
    for name in ("passed", "failed"):
        pattern = pattern.replace(re.escape(f"{{{name}}}"), rf"(?P<{name}>\d{{1,9}})", 1)
    matches = list(re.finditer(pattern, text))[-1:]
    return [
        Counts(
            int(match["passed"]) + int(match.groupdict().get("failed") or 0), int(match["passed"])
        )
        for match in matches
    ]


def _pattern_counts(text: str) -> list[Counts]:
    counts = []
    for summary, passed_pattern, failed_pattern in _SUMMARIES:
        for match in summary.finditer(text):
            passed = sum(map(int, passed_pattern.findall(match[0])))
            failed = sum(map(int, failed_pattern.findall(match[0])))
            counts.append(Counts(passed + failed, passed))
    return counts


def _unittest_counts(text: str) -> list[Counts]:
    counts = []
    for match in _UNITTEST.finditer(text):
        details = match[2] or ""
        ran = max(0, int(match[1]) - sum(map(int, _UNITTEST_NOT_RUN.findall(details))))
        failed = sum(map(int, _UNITTEST_FAILED.findall(details.replace("expected failures", ""))))
        counts.append(Counts(ran, max(0, ran - failed)))
    return counts


def _go_counts(text: str) -> list[Counts]:
    """One count for each package. With -v every test has a line, which is more exact."""
    packages = [match[0] for match in _GO_PACKAGE.finditer(text)]
    tests = _GO_TEST.findall(text)
    passed = tests.count("PASS")
    if packages and (passed or "SKIP" in tests):
        return [Counts(passed + tests.count("FAIL"), passed)]
    return [_go_package(package) for package in packages]


def _go_package(line: str) -> Counts:
    if line.endswith(_GO_EMPTY):
        return Counts(0, 0)
    return Counts(1, 0) if line.startswith("FAIL") else Counts(1, 1)
