"""Finds the tests of a Go file."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from shiftboss.rules.claims.test_scanners.source import ScannedTest, body_of, closings, masked_go

_FUNCTION: Final = re.compile(
    r"^func[ \t]+(?:\([^)]*\)[ \t]*)?((?:Test|Fuzz|Example|Benchmark)\w*)[ \t]*\(", re.MULTILINE
)
_SKIP: Final = re.compile(r"\.\s*(Skip|Skipf|SkipNow)\s*\(")
_RUN: Final = re.compile(r"\.\s*Run\s*\(")
_BUILD: Final = re.compile(r"^//(?:go:build|[ ]\+build)[ \t]+(.*)$", re.MULTILINE)
# `a_windows_test.go` is built only on Windows.
_MACHINES: Final = (
    "aix|android|darwin|dragonfly|freebsd|illumos|ios|js|linux|netbsd|openbsd|plan9|solaris|wasip1|"
    "windows|386|amd64|arm|arm64|loong64|mips|mips64|mips64le|mipsle|ppc64|ppc64le|riscv64|s390x|"
    "wasm"
)
_FOR_A_MACHINE: Final = re.compile(rf".*_({_MACHINES})_test\.go")
_PACKAGE: Final = re.compile(r"^package\b", re.MULTILINE)


def go_machine(path: str) -> str | None:
    """The restriction to one kind of machine that the file name implies, or None."""
    match = _FOR_A_MACHINE.fullmatch(path)
    return f"built only on {match[1]}" if match else None


class GoTest(NamedTuple):
    head: int  # the start of its declaration
    body: int  # its opening brace
    test: ScannedTest


def go_tests(text: str) -> list[ScannedTest]:
    return [located.test for located in located_tests(text, masked_go(text))]


def located_tests(text: str, masked: str) -> list[GoTest]:
    ends = closings(masked)
    off = _build_constraints(text, masked)
    tests = []
    for match in _FUNCTION.finditer(masked):
        start, end = _body(masked, ends, match.end() - 1)
        if match[1] == "TestMain":
            if not _RUN.search(masked, start, end):
                off |= {"a TestMain that runs nothing"}
            continue
        skips = frozenset(skip[1] for skip in _SKIP.finditer(masked, start, end))
        test = ScannedTest(match[1], body_of(text, start, end), skips)
        tests.append(GoTest(match.start(), start, test))
    # A TestMain may come after the tests that it keeps from running.
    return [each._replace(test=each.test._replace(off=each.test.off | off)) for each in tests]


def _build_constraints(text: str, masked: str) -> frozenset[str]:
    """Build constraints, which can exclude the file from the build."""
    package = _PACKAGE.search(masked)
    head = text[: package.start()] if package else ""
    return frozenset(f"build {match[1].strip()}" for match in _BUILD.finditer(head))


def _body(masked: str, ends: dict[int, int], parameters: int) -> tuple[int, int]:
    opening = masked.find("{", ends.get(parameters, len(masked)))
    return (opening, ends.get(opening, len(masked))) if opening >= 0 else (0, 0)
