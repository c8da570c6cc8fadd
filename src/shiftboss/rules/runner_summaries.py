"""How many tests ran and passed, by the summaries that test runners print.

A run in which every test is skipped ends with exit code 0 in most of them.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_COLOUR: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")

# Summaries are short. The output is the worker's, and a long line could keep a pattern busy.
_LINE_CHARACTERS_MAX: Final = 300

_NEVER: Final = r"(?!)"
_PASSED: Final = r"(\d+) passed"
_FAILED: Final = r"(\d+) failed"
_PYTEST: Final = (
    r"\d+ (?:subtests )?"
    r"(?:passed|failed|skipped|deselected|xfailed|xpassed|errors?|warnings?|rerun)"
)
# Summaries that give the numbers of passed and failed tests, or leave them out when there are none.
_COUNTS: Final = tuple(
    (re.compile(summary, re.MULTILINE), re.compile(passed), re.compile(failed))
    for summary, passed, failed in (
        # pytest: `=== 3 passed, 1 skipped in 0.12s ===`, the frame missing with -q
        (
            rf"^=*[ ]*(?:{_PYTEST}, )*{_PYTEST} in \d+\.\d+s\b",
            r"(\d+) (?:subtests )?x?passed",
            r"(\d+) (?:subtests )?failed",
        ),
        (r"^=*[ ]*no tests ran in \d", _NEVER, _NEVER),
        # jest: `Tests:       1 skipped, 2 passed, 3 total`
        (r"^[ ]*Tests:[ ].*\d+ total", _PASSED, _FAILED),
        (r"^[ ]*No tests found, exiting with code 0", _NEVER, _NEVER),
        # vitest: `      Tests  2 passed | 1 skipped (3)`
        (r"^[ ]*Tests[ ]{2,}(?:no tests|.*\(\d+\))", _PASSED, _FAILED),
        (r"^[ ]*No test files found, exiting with code 0", _NEVER, _NEVER),
        # mocha: `  3 passing (5ms)`, then pending and failing ones
        (
            r"^[ ]*\d+ passing \([^\n]*(?:\n[ ]*\d+ (?:pending|failing))*",
            r"(\d+) passing",
            r"(\d+) failing",
        ),
        # bun test: ` 3 pass`, then ` 1 skip`, ` 0 fail`
        (
            r"^[ ]*\d+ pass(?:\n[ ]*\d+ (?:skip|todo|fail))*$",
            r"(\d+) pass\b",
            r"(\d+) fail\b",
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
    """`ran` are those that passed or failed; skipped ones and expected failures did not count."""

    ran: int
    passed: int


def counted(output: str) -> Counts | None:
    """The sum over all summaries in the output; None when there is none that is known."""
    lines = _COLOUR.sub("", output).splitlines()
    text = "\n".join(line for line in lines if len(line) <= _LINE_CHARACTERS_MAX)
    found = [*_counted(text), *_unittest(text), *_go(text)]
    if not found:
        return None
    return Counts(sum(one.ran for one in found), sum(one.passed for one in found))


def _counted(text: str) -> list[Counts]:
    found = []
    for summary, passed, failed in _COUNTS:
        for match in summary.finditer(text):
            good = sum(map(int, passed.findall(match[0])))
            found.append(Counts(good + sum(map(int, failed.findall(match[0]))), good))
    return found


def _unittest(text: str) -> list[Counts]:
    found = []
    for match in _UNITTEST.finditer(text):
        details = match[2] or ""
        ran = max(0, int(match[1]) - sum(map(int, _UNITTEST_NOT_RUN.findall(details))))
        bad = sum(map(int, _UNITTEST_FAILED.findall(details.replace("expected failures", ""))))
        found.append(Counts(ran, max(0, ran - bad)))
    return found


def _go(text: str) -> list[Counts]:
    """One for each package with tests. With -v every test has a line, which says more."""
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
