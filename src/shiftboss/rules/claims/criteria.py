"""Success criteria: which of them are commands, and whether the result of a command is a pass.

Commands run without a shell, so a command that needs one is refused when the contract is made, not
when the work is done. For tests, exit code 0 is not enough: most test runners return it also when
every test was skipped. So the summaries that they print are counted.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

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

_COLOUR: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")

# Summaries are short. The worker controls the output, and a long line could slow a pattern down.
_LINE_CHARACTERS_MAX: Final = 300

_NEVER: Final = r"(?!)"
_PASSED: Final = r"(\d+) passed"
_FAILED: Final = r"(\d+) failed"
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


@dataclass(frozen=True, slots=True)
class CheckableCriterion:
    kind: CriterionKind
    argv: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CommandResult:
    """How a command ended. `exit_code` is the negative signal number if a signal killed it, None if
    it was stopped or never started. `message` describes the end, `sandbox` what contained it.
    `sandbox_is_missing`: it was not run, because the policy requires a sandbox."""

    exit_code: int | None
    timed_out: bool
    out_of_memory: bool
    output_tail: str
    duration_ms: int
    message: str
    sandbox: str | None = None
    sandbox_is_missing: bool = False


def parse_criterion(text: str) -> CheckableCriterion | None:
    """None if the criterion names no command, so that it cannot be checked.

    Raises ValueError if the command needs a shell.
    """
    match = _CRITERION.fullmatch(text)
    if match is None:
        return None
    kind = _KINDS[" ".join(match[1].lower().split())]
    return CheckableCriterion(kind, parse_command(match[2]))


def parse_command(text: str) -> tuple[str, ...]:
    """The arguments of a command line. Raises ValueError if it needs a shell."""
    command = text.strip()
    shell_syntax = _EXPANSION.search(_QUOTED.sub(_expanded_part, command))
    if shell_syntax is None:
        shell_syntax = _OPERATOR.search(_QUOTED.sub("", command))
    if shell_syntax is not None:
        raise _needs_shell(command, f"contains {shell_syntax[0]!r}")
    try:
        argv = tuple(shlex.split(command))
    except ValueError as exc:
        raise _needs_shell(command, f"cannot be split into words ({exc})") from exc
    if not argv or not argv[0]:
        raise _needs_shell(command, "names no program")
    if _ASSIGNMENT.match(argv[0]):
        raise _needs_shell(command, "starts with an assignment")
    return argv


def failure_reason(
    criterion: CheckableCriterion, result: CommandResult, ran_at_base: int | None = None
) -> str | None:
    """Why the result of a command is not a pass, or None if it is.

    Exit code 0 is a pass, except for tests of which none passed, or fewer than `ran_at_base`.
    """
    if result.exit_code != 0:
        return result.message
    if criterion.kind != "tests":
        return None
    now = count_tests(result.output_tail)
    if now is not None and now.passed == 0:
        return "no test passed: all were skipped, or none was found"
    if not ran_at_base:
        return None
    before = "1 test" if ran_at_base == 1 else f"{ran_at_base} tests"
    if now is None:
        return f"{before} ran at the base, but the output reports none now: was it cut off?"
    if now.passed < ran_at_base:
        return f"{before} ran at the base, only {now.passed} pass now: were any removed or skipped?"
    return None


def _expanded_part(quoted: re.Match[str]) -> str:
    """Keep text in double quotes, because a shell expands variables and commands there too."""
    text = quoted[0]
    return re.sub(r"\\.", "", text, flags=re.DOTALL) if text.startswith('"') else ""


def _needs_shell(command: str, what: str) -> ValueError:
    return ValueError(
        f"{command!r} {what}, but commands run without a shell; "
        "split it into several criteria, or put it into a script and name the script"
    )


class Counts(NamedTuple):
    """`ran` counts tests that passed or failed, without skipped tests and expected failures."""

    ran: int
    passed: int


def count_tests(output: str) -> Counts | None:
    """The sum over all summaries in the output, or None if it has no known summary."""
    lines = _COLOUR.sub("", output).splitlines()
    text = "\n".join(line for line in lines if len(line) <= _LINE_CHARACTERS_MAX)
    counts = [*_pattern_counts(text), *_unittest_counts(text), *_go_counts(text)]
    if not counts:
        return None
    return Counts(sum(count.ran for count in counts), sum(count.passed for count in counts))


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
