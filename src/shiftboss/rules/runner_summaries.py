"""How many tests passed, by the summaries that test runners print.

A run in which every test is skipped ends with exit code 0 in most of them.
"""

from __future__ import annotations

import re
from typing import Final

_COLOUR: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")

# Summaries are short. The output is the worker's, and a long line could keep a pattern busy.
_LINE_CHARACTERS_MAX: Final = 300

_PYTEST: Final = (
    r"\d+ (?:subtests )?"
    r"(?:passed|failed|skipped|deselected|xfailed|xpassed|errors?|warnings?|rerun)"
)
# Summaries that give the number of passed tests, or leave it out when there are none.
_COUNTS: Final = tuple(
    (re.compile(summary, re.MULTILINE), re.compile(passed))
    for summary, passed in (
        # pytest: `=== 3 passed, 1 skipped in 0.12s ===`, the frame missing with -q
        (rf"^=*[ ]*(?:{_PYTEST}, )*{_PYTEST} in \d+\.\d+s\b", r"(\d+) (?:subtests )?x?passed"),
        (r"^=*[ ]*no tests ran in \d", r"(?!)"),
        # jest: `Tests:       1 skipped, 2 passed, 3 total`
        (r"^[ ]*Tests:[ ].*\d+ total", r"(\d+) passed"),
        (r"^[ ]*No tests found, exiting with code 0", r"(?!)"),
        # vitest: `      Tests  2 passed | 1 skipped (3)`
        (r"^[ ]*Tests[ ]{2,}(?:no tests|.*\(\d+\))", r"(\d+) passed"),
        (r"^[ ]*No test files found, exiting with code 0", r"(?!)"),
        # mocha: `  3 passing (5ms)`
        (r"^[ ]*\d+ passing \(", r"(\d+) passing"),
        # bun test: ` 3 pass`
        (r"^[ ]*\d+ pass$", r"(\d+) pass"),
        # node --test and other TAP: `# pass 3`
        (r"^(?:ℹ|#)[ ]+pass[ ]+\d+$", r"(\d+)"),
        # cargo test: one line for each binary
        (r"^test result: ok\. \d+ passed;", r"(\d+) passed"),
        # deno test: `ok | 3 passed | 0 failed (5ms)`
        (r"^ok \| \d+ passed", r"(\d+) passed"),
    )
)

_UNITTEST: Final = re.compile(
    r"^Ran (\d+) tests? in [^\n]*\n+(?:OK(?: \(([^)\n]*)\))?|NO TESTS RAN[^\n]*)$", re.MULTILINE
)
_UNITTEST_NOT_PASSED: Final = re.compile(r"(?:skipped|expected failures)=(\d+)")

_GO_PACKAGE: Final = re.compile(
    r"^(?:ok[ ]*\t[^\t\n]+\t[^\n]*|\?[ ]*\t[^\n]*\[no test files\])$", re.MULTILINE
)
_GO_EMPTY: Final = ("[no test files]", "[no tests to run]")
_GO_TEST: Final = re.compile(r"^[ ]*--- (PASS|SKIP): ", re.MULTILINE)


def passed_tests(output: str) -> int | None:
    """The sum over all summaries in the output; None when there is none that is known."""
    lines = _COLOUR.sub("", output).splitlines()
    text = "\n".join(line for line in lines if len(line) <= _LINE_CHARACTERS_MAX)
    found = [*_counted(text), *_unittest(text), *_go(text)]
    return sum(found) if found else None


def _counted(text: str) -> list[int]:
    return [
        sum(int(number) for number in passed.findall(match[0]))
        for summary, passed in _COUNTS
        for match in summary.finditer(text)
    ]


def _unittest(text: str) -> list[int]:
    return [
        max(0, int(match[1]) - sum(map(int, _UNITTEST_NOT_PASSED.findall(match[2] or ""))))
        for match in _UNITTEST.finditer(text)
    ]


def _go(text: str) -> list[int]:
    """One for each package with tests. With -v every test has a line, which says more."""
    packages = [match[0] for match in _GO_PACKAGE.finditer(text)]
    tests = _GO_TEST.findall(text)
    if packages and tests:
        return [tests.count("PASS")]
    return [0 if package.endswith(_GO_EMPTY) else 1 for package in packages]
