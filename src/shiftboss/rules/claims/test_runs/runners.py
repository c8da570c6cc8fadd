"""Which test runner a command starts, and how it is asked to report its tests one by one."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple

RunnerName = Literal[
    "pytest", "unittest", "jest", "vitest", "node", "go", "cargo", "mocha", "bun", "deno"
]
ReportFormat = Literal["junit", "jest"]

# Programs that run another program. They may be followed by options and one or two words.
_LAUNCHERS: Final = frozenset(
    ("uv", "uvx", "poetry", "pipenv", "pdm", "hatch", "rye", "pixi", "conda", "coverage")
) | frozenset(
    ("npx", "pnpm", "yarn", "bunx", "npm", "timeout", "nice", "env", "xvfb-run", "time", "dotenv")
)
_PYTHON: Final = ("python", "pypy", "py")
_BY_PROGRAM: Final[Mapping[str, RunnerName]] = {
    "pytest": "pytest",
    "py.test": "pytest",
    "jest": "jest",
    "vitest": "vitest",
    "mocha": "mocha",
}
_BY_MODULE: Final[Mapping[str, RunnerName]] = {"pytest": "pytest", "unittest": "unittest"}
# All tests have to be reported, also after one that fails. For pytest, the last option counts.
_KEEP_GOING: Final = "--maxfail=0"
_FAIL_FAST: Final[Mapping[RunnerName, tuple[str, ...]]] = {
    "unittest": ("-f", "--failfast"),
    "go": ("-failfast", "--failfast", "-failfast=true"),
    "jest": ("--bail", "-b", "--bail=1"),
    "vitest": ("--bail", "--bail=1"),
    "mocha": ("--bail", "-b"),
}
_WITHOUT_TESTS: Final = frozenset(
    ("--collect-only", "--co", "--version", "--help", "-h", "--fixtures", "--markers")
) | frozenset(("--listTests", "--showConfig", "--no-run", "-list", "--list"))
# How many words before the runner may belong to its launchers.
_WORDS_BEFORE_MAX: Final = 12


class ReportingCommand(NamedTuple):
    """A command with what makes the runner report its tests. `runner` is None if it is unknown.
    `must_report`: a run that wrote no report was cut off."""

    runner: RunnerName | None
    argv: Sequence[str]
    environment: Mapping[str, str]
    format: ReportFormat
    must_report: bool = False


def reporting_command(argv: Sequence[str], report: str) -> ReportingCommand:
    """The command, changed so that each test is reported: to the file `report` or in the output.

    A runner that a script or a Makefile starts is asked through the environment, as far as it reads
    it. Only the words of a command tell for sure which runner it is.
    """
    named = _find_runner(argv)
    options = [f"--junitxml={report}", "-o", "junit_family=xunit1", _KEEP_GOING]
    variables = {"PYTEST_ADDOPTS": shlex.join(options)}
    if named is None:
        return ReportingCommand(None, tuple(argv), variables, "junit")
    runner, at = named
    words = [word for word in argv if not _is_fail_fast(runner, word)]
    match runner:
        case "pytest":
            words.append(_KEEP_GOING)
            if any(word.startswith(("--junitxml", "--junit-xml")) for word in words):
                words.append(f"--junitxml={report}")
            return ReportingCommand(runner, words, variables, "junit", must_report=True)
        case "unittest" if not {"-q", "--quiet"} & set(words):
            words.append("-v")
        case "go" if not any(word.startswith(("-json", "-v", "--json")) for word in words):
            words.insert(at + 2, "-v")
        case "cargo" if "--no-fail-fast" not in words:
            words.insert(at + 2, "--no-fail-fast")
        case "node":
            destinations = ["--test-reporter=spec", "--test-reporter-destination=stdout"]
            destinations += ["--test-reporter=junit", f"--test-reporter-destination={report}"]
            words[at + 1 : at + 1] = destinations
            return ReportingCommand(runner, words, {}, "junit", must_report=True)
        case "jest":
            words += ["--json", f"--outputFile={report}"]
            return ReportingCommand(runner, words, {}, "jest", must_report=True)
        case "vitest":
            words += ["--reporter=default", "--reporter=json", f"--outputFile.json={report}"]
            return ReportingCommand(runner, words, {}, "jest", must_report=True)
        case _:
            pass
    return ReportingCommand(runner, words, variables, "junit")


def _is_fail_fast(runner: RunnerName, word: str) -> bool:
    return word in _FAIL_FAST.get(runner, ())


def words_after_runner(argv: Sequence[str]) -> Sequence[str]:
    """The options and arguments of a test runner that is known by the words of the command."""
    named = _find_runner(argv)
    return () if named is None else argv[named[1] + 1 :]


def runner_of(argv: Sequence[str]) -> RunnerName | None:
    """The runner that the command names, if it runs tests and does not just list or build them."""
    named = _find_runner(argv)
    return None if named is None or not _WITHOUT_TESTS.isdisjoint(argv) else named[0]


def _find_runner(argv: Sequence[str]) -> tuple[RunnerName, int] | None:
    """The runner and the index of its program. Only launchers and Python may stand before it."""
    at = 0
    while at < min(len(argv), _WORDS_BEFORE_MAX):
        program = argv[at].rsplit("/", 1)[-1]
        if program in _BY_PROGRAM:
            return _BY_PROGRAM[program], at
        if at > 0 and argv[at - 1] == "-m" and program in _BY_MODULE:
            return _BY_MODULE[program], at
        if program.startswith(_PYTHON):
            return _python_runner(argv, at)
        if program in ("node", "nodejs"):
            return _node_runner(argv, at)
        following = argv[at + 1] if at + 1 < len(argv) else ""
        if program in ("go", "cargo", "bun", "deno"):
            is_test = following == "test" or (program == "cargo" and following == "t")
            return (_as_runner(program), at) if is_test else None
        if program not in _LAUNCHERS:
            return None
        at = _after_launcher(argv, at)
    return None


def _as_runner(program: str) -> RunnerName:
    known: dict[str, RunnerName] = {"go": "go", "cargo": "cargo", "bun": "bun", "deno": "deno"}
    return known[program]


def _after_launcher(argv: Sequence[str], at: int) -> int:
    """The index of the next known program, wherever the options of the launcher end."""
    known = {*_BY_PROGRAM, *_LAUNCHERS, "node", "go", "cargo", "bun", "deno"}
    for index in range(at + 1, min(len(argv), _WORDS_BEFORE_MAX)):
        program = argv[index].rsplit("/", 1)[-1]
        is_module = argv[index - 1] == "-m" and argv[index] in _BY_MODULE
        if program in known or program.startswith(_PYTHON) or is_module:
            return index
    return len(argv)


def _python_runner(argv: Sequence[str], at: int) -> tuple[RunnerName, int] | None:
    """`python -m MODULE`, also `python -m coverage run -m MODULE`."""
    in_coverage = False
    for index in range(at + 1, min(len(argv) - 1, _WORDS_BEFORE_MAX)):
        word, following = argv[index], argv[index + 1]
        if word == "-m" and following in _BY_MODULE:
            return _BY_MODULE[following], index + 1
        if word == "-m" and following == "coverage":
            in_coverage = True
        is_script = not word.startswith("-") and argv[index - 1] not in ("-X", "-W")
        if not in_coverage and (word in ("-m", "-c") or is_script):
            return None
    return None


def _node_runner(argv: Sequence[str], at: int) -> tuple[RunnerName, int] | None:
    options = [word for word in argv[at + 1 :] if word.startswith("-")]
    if "--test" in options:
        return None if any("--test-reporter" in word for word in options) else ("node", at)
    script = next((word for word in argv[at + 1 :] if not word.startswith("-")), "")
    name = script.rsplit("/", 1)[-1].removesuffix(".js").removesuffix(".mjs")
    return (_BY_PROGRAM[name], at) if name in _BY_PROGRAM else None
