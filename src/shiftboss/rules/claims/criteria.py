"""Success criteria: which of them are commands, and what the end of a command says.

Commands are run without a shell, so what only a shell understands is refused when the contract is
made, not when the work is done.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

# How many tests ran and passed, by the summaries that test runners print.
#
# A run in which every test is skipped ends with exit code 0 in most of them.


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


CriterionKind = Literal["tests", "type_check", "command"]

_KINDS: Final[dict[str, CriterionKind]] = {
    "tests pass": "tests",
    "type check passes": "type_check",
    "command passes": "command",
}
_CRITERION: Final = re.compile(
    r"\s*(tests\s+pass|type\s+check\s+passes|command\s+passes)\s*:(.*)",
    re.IGNORECASE | re.DOTALL,
)
_QUOTED: Final = re.compile(r"""\\.|'[^']*'|"(?:\\.|[^"\\])*\"""", re.DOTALL)
_OPERATOR: Final = re.compile(r"&&|\|\||[;|&<>()\n\r]")
_EXPANSION: Final = re.compile(r"`|\$[A-Za-z_({]")
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")


@dataclass(frozen=True, slots=True)
class CheckableCriterion:
    kind: CriterionKind
    argv: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CommandResult:
    """How a command ended. `exit_code` is minus the signal that killed it, and None when it did
    not end by itself or was never started; `message` says it in words."""

    exit_code: int | None
    timed_out: bool
    out_of_memory: bool
    output_tail: str
    duration_ms: int
    message: str


def parse_criterion(text: str) -> CheckableCriterion | None:
    """None when no command is named, so that nothing can be checked. ValueError when the command
    needs a shell."""
    match = _CRITERION.fullmatch(text)
    if match is None:
        return None
    kind = _KINDS[" ".join(match[1].lower().split())]
    return CheckableCriterion(kind, parse_command(match[2]))


def parse_command(text: str) -> tuple[str, ...]:
    """The words of a command line. ValueError when it needs a shell."""
    command = text.strip()
    found = _EXPANSION.search(_QUOTED.sub(_expanded_part, command))
    if found is None:
        found = _OPERATOR.search(_QUOTED.sub("", command))
    if found is not None:
        raise _needs_shell(command, f"has {found[0]!r}")
    try:
        argv = tuple(shlex.split(command))
    except ValueError as exc:
        raise _needs_shell(command, f"cannot be split into words ({exc})") from exc
    if not argv or not argv[0]:
        raise _needs_shell(command, "names no program")
    if _ASSIGNMENT.match(argv[0]):
        raise _needs_shell(command, "begins with an assignment")
    return argv


def objection(
    criterion: CheckableCriterion, result: CommandResult, ran_at_base: int | None = None
) -> str | None:
    """Why a command that was run does not count as a pass. Exit code 0 does, except for tests of
    which none passed, or fewer than `ran_at_base`."""
    if result.exit_code != 0:
        return result.message
    if criterion.kind != "tests":
        return None
    now = counted(result.output_tail)
    if now is not None and now.passed == 0:
        return "no test passed: all were skipped, or none was found"
    if not ran_at_base:
        return None
    before = "1 test" if ran_at_base == 1 else f"{ran_at_base} tests"
    if now is None:
        return f"{before} ran at the base, and the output tells of none now: was the run cut off?"
    if now.passed < ran_at_base:
        return (
            f"{before} ran at the base, only {now.passed} pass now: were tests removed or skipped?"
        )
    return None


def _expanded_part(quoted: re.Match[str]) -> str:
    """A shell looks for variables and commands inside double quotes too."""
    text = quoted[0]
    return re.sub(r"\\.", "", text, flags=re.DOTALL) if text.startswith('"') else ""


def _needs_shell(command: str, what: str) -> ValueError:
    return ValueError(
        f"{command!r} {what}: commands are run without a shell; "
        "split it into several criteria, or put it into a script and name that"
    )
