"""Which tests of the base a change removed or disabled.

A test that moved to another changed file of the same language, or was renamed with the same body,
counts as kept. The content of tests is not judged here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from shiftboss.rules.claims.test_scanners.go import go_machine, go_tests
from shiftboss.rules.claims.test_scanners.javascript import javascript_tests
from shiftboss.rules.claims.test_scanners.python import python_tests, python_tests_by_line
from shiftboss.rules.claims.test_scanners.rust import rust_tests
from shiftboss.rules.claims.test_scanners.source import ScannedTest

_SCRIPT: Final = r"\.[cm]?[jt]sx?"
# The first match counts. Files that a test runner finds by name are one kind, other files in a
# folder of tests another, because a test that moves from the first to the second no longer runs.
_KINDS: Final[Sequence[tuple[str, re.Pattern[str]]]] = (
    ("python", re.compile(r"(.*/)?(test_[^/]*|[^/]*_test|tests?)\.py")),
    ("python, not found by name", re.compile(r"(.*/)?tests?/.*\.py")),
    ("javascript", re.compile(rf".*[._-](test|spec){_SCRIPT}|(.*/)?__tests__/.*{_SCRIPT}")),
    (
        "javascript, not found by name",
        re.compile(rf"(.*/)?(tests?|specs?|e2e)/.*{_SCRIPT}|(.*/)?test{_SCRIPT}"),
    ),
    ("go", re.compile(r".*_test\.go")),
    ("rust", re.compile(r".*\.rs")),
)
_HARNESS_FOLDERS: Final = frozenset(
    {"tests", "test", "spec", "specs", "__tests__", "testdata", "__snapshots__", "snapshots"}
    | {"fixtures", "golden", "e2e"}
)
_SCANNERS: Final[dict[str, Callable[[str], list[ScannedTest]]]] = {
    "javascript": javascript_tests,
    "go": go_tests,
    "rust": rust_tests,
}


class FileRevision(NamedTuple):
    """A file at the base and at the commit. None means that it does not exist."""

    path: str
    before: str | None
    after: str | None


class LostTest(NamedTuple):
    path: str
    name: str
    how: str  # reads well after the name


class _LocatedTest(NamedTuple):
    path: str
    test: ScannedTest


def language_of_tests(path: str) -> str | None:
    """The kind of tests that a file with this name can have, or None."""
    return next((kind for kind, names in _KINDS if names.fullmatch(path)), None)


def is_test_file(path: str) -> bool:
    """Whether the file contains only tests. In Rust, any file can have tests next to its code."""
    kind = language_of_tests(path)
    return kind is not None and (kind != "rust" or "tests" in path.split("/")[:-1])


def is_harness_file(path: str) -> bool:
    """Whether the file has tests, or helps tests: configuration, data and expected results."""
    *folders, name = path.split("/")
    return is_test_file(path) or name == "conftest.py" or not _HARNESS_FOLDERS.isdisjoint(folders)


def scan_tests(path: str, text: str) -> list[ScannedTest]:
    """The tests of a file; none if its name is not one of a file with tests."""
    kind = language_of_tests(path)
    return [] if kind is None else _scan(kind.split(",")[0], "", text)[1]


def lost_tests(revisions: Iterable[FileRevision]) -> list[LostTest]:
    """The tests that were removed or disabled."""
    by_kind: dict[str, list[FileRevision]] = {}
    for revision in revisions:
        kind = language_of_tests(revision.path)
        if kind is not None:
            by_kind.setdefault(kind, []).append(revision)
    return [lost for kind, files in by_kind.items() for lost in _lost(kind.split(",")[0], files)]


def _lost(language: str, revisions: Sequence[FileRevision]) -> list[LostTest]:
    lost: list[LostTest] = []
    missing: list[_LocatedTest] = []
    new: list[_LocatedTest] = []
    for path, before, after in revisions:
        if before is None:
            continue
        old_tests, new_tests = _scan(language, before, after or "")
        remaining = _by_name(new_tests)
        for test in old_tests:
            if remaining.get(test.name):
                now = _LocatedTest(path, remaining[test.name].pop(0))
                lost += _disabled(_LocatedTest(path, test), now)
            else:
                missing.append(_LocatedTest(path, test))
        new += [_LocatedTest(path, test) for tests in remaining.values() for test in tests]
    if missing:
        for path, before, after in revisions:
            if before is None and after is not None:
                new += [_LocatedTest(path, test) for test in _scan(language, "", after)[1]]
        lost += _moved_or_gone(missing, new)
    return lost


def _moved_or_gone(missing: Sequence[_LocatedTest], new: list[_LocatedTest]) -> list[LostTest]:
    lost: list[LostTest] = []
    for old in missing:
        same = next((located for located in new if located.test.name == old.test.name), None)
        same = same or next(
            (located for located in new if located.test.body == old.test.body), None
        )
        if same is None:
            lost.append(LostTest(old.path, old.test.name, "was removed"))
        else:
            new.remove(same)
            lost += _disabled(old, same)
    return lost


def _disabled(old: _LocatedTest, now: _LocatedTest) -> list[LostTest]:
    reasons = sorted(_reasons(now) - _reasons(old))
    if not reasons:
        return []
    return [LostTest(old.path, old.test.name, f"was disabled ({', '.join(reasons)})")]


def _reasons(located: _LocatedTest) -> frozenset[str]:
    """Why the test does not run. In Go, the name of the file can exclude it from the build."""
    machine = go_machine(located.path)
    return located.test.off | {machine} if machine is not None else located.test.off


def _by_name(tests: Iterable[ScannedTest]) -> dict[str, list[ScannedTest]]:
    by_name: dict[str, list[ScannedTest]] = {}
    for test in tests:
        by_name.setdefault(test.name, []).append(test)
    return by_name


def _scan(language: str, before: str, after: str) -> tuple[list[ScannedTest], list[ScannedTest]]:
    """Scan both versions in the same way, because two ways would not find the same names."""
    if language != "python":
        scanner = _SCANNERS[language]
        return scanner(before), scanner(after)
    try:
        return python_tests(before), python_tests(after)
    except SyntaxError:
        return python_tests_by_line(before), python_tests_by_line(after)
