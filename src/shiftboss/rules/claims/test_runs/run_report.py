"""The tests that a runner reports, and whether they are those that must pass."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

from shiftboss.protocol.claims.verdicts import TestTotals

Source = Literal["report", "output", "summary"]
CaseOutcome = Literal["passed", "failed", "skipped"]

_OUTER_NAMES: Final = re.compile(r".*(?:::|\.| > | )", re.DOTALL)
_WORD: Final = re.compile(r"\w+")
NAMED_MAX: Final = 5
# How deep in packages a module can be. Names with more parts could be written to waste time.
_MODULE_PARTS_MAX: Final = 50


class ReportedTest(NamedTuple):
    """One test of a run. `file` is its path in the repository, if the runner reports it. `name` is
    unique in the file: of Python tests `Class::test_name[parameters]`."""

    file: str | None
    name: str
    outcome: CaseOutcome

    @property
    def function(self) -> tuple[str | None, str]:
        """The same for all parameters of a test."""
        name, bracket, _ = self.name.partition("[")
        return self.file, name if bracket and self.name.endswith("]") else self.name

    @property
    def function_name(self) -> str:
        """Without the names of classes and suites."""
        name = self.function[1]
        outer = _OUTER_NAMES.match(name)
        return name[outer.end() :] if outer else name

    @property
    def label(self) -> str:
        return self.name if self.file is None else f"{self.file}::{self.name}"


class RunReport(NamedTuple):
    """What a run reported. `tests` is empty if only their numbers are known. Skipped tests and
    expected failures have not run."""

    source: Source
    tests: Sequence[ReportedTest]
    ran: int
    passed: int
    skipped: int = 0

    @classmethod
    def of_tests(cls, source: Source, tests: Sequence[ReportedTest]) -> RunReport:
        outcomes = Counter(test.outcome for test in tests)
        ran = outcomes["passed"] + outcomes["failed"]
        return cls(source, tests, ran, outcomes["passed"], outcomes["skipped"])

    @property
    def totals(self) -> TestTotals:
        return TestTotals(
            source=self.source, ran=self.ran, passed=self.passed, skipped=self.skipped
        )

    def with_files(self, paths: Collection[str]) -> RunReport:
        """Tests that are named by their module get the file of the module."""
        by_module = _files_by_module(paths)
        return self._replace(tests=[_with_file(test, by_module) for test in self.tests])


def _files_by_module(paths: Iterable[str]) -> dict[str, list[str]]:
    """The Python files that a module name can mean, such as `tests.test_a` or `test_a`."""
    by_module: dict[str, list[str]] = {}
    for path in paths:
        if path.endswith(".py"):
            parts = path.removesuffix(".py").removesuffix("/__init__").split("/")
            for start in range(max(0, len(parts) - _MODULE_PARTS_MAX), len(parts)):
                by_module.setdefault(".".join(parts[start:]), []).append(path)
    return by_module


def _with_file(test: ReportedTest, by_module: dict[str, list[str]]) -> ReportedTest:
    if test.file is not None or "." not in test.name:
        return test
    parts = test.name.split(".")
    for end in range(min(len(parts) - 1, _MODULE_PARTS_MAX), 0, -1):
        files = by_module.get(".".join(parts[:end]), [])
        if len(files) == 1:
            return test._replace(file=files[0], name="::".join(parts[end:]))
    return test


def missing_tests(
    before: Sequence[ReportedTest],
    now: Sequence[ReportedTest],
    changed: Mapping[str, str] = MappingProxyType({}),
) -> list[ReportedTest]:
    """The tests that ran before and do not pass now.

    The parameters of a test may have been changed, as long as it has no fewer of them. `changed`
    has the texts of the files that the work changed. From these, a test may have been moved to
    another one, or renamed, if its name is gone; whether it was removed is another check.
    """
    passed = [test for test in now if test.outcome == "passed"]
    names = {(test.file, test.name) for test in passed}
    functions = Counter(test.function for test in passed)
    in_changed = {test.function_name for test in passed if test.file in changed}
    texts = {file: _Words(text) for file, text in changed.items()}
    ran = [test for test in before if test.outcome != "skipped"]
    needed = Counter(test.function for test in ran)
    return [
        test
        for test in ran
        if (test.file, test.name) not in names
        and functions[test.function] < needed[test.function]
        and not _was_moved(test, in_changed, texts)
    ]


def _was_moved(
    test: ReportedTest, in_changed: Collection[str], texts: Mapping[str, _Words]
) -> bool:
    text = texts.get(test.file) if test.file is not None else None
    if text is None:
        return False
    name = test.function_name
    return name in in_changed or not text.mention(name)


class _Words:
    """The words of a text, which is read once for all tests that are missing."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._found: frozenset[str] | None = None

    def mention(self, name: str) -> bool:
        if not _WORD.fullmatch(name):  # a title; those of Python, Go and Rust are words
            return re.search(rf"\b{re.escape(name)}\b", self._text) is not None
        if self._found is None:
            self._found = frozenset(_WORD.findall(self._text))
        return name in self._found


def name_tests(tests: Sequence[ReportedTest]) -> str:
    named = ", ".join(test.label for test in tests[:NAMED_MAX])
    more = len(tests) - NAMED_MAX
    return f"{named}, and {more} more" if more > 0 else named
