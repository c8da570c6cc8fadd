"""Which tests of the base a change removed or switched off.

A test that moved to another changed file of its language, or got another name for the same body, is
kept. What a test says is not judged here.
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
# The first that fits. Files that a runner finds by their names are one kind, other files of a
# folder of tests another: a test that moves from the first to the second would not be run any more.
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
_SCANNERS: Final[dict[str, Callable[[str], list[ScannedTest]]]] = {
    "javascript": javascript_tests,
    "go": go_tests,
    "rust": rust_tests,
}


class Revision(NamedTuple):
    """A file at the base and at the commit. None: it is not there."""

    path: str
    before: str | None
    after: str | None


class Lost(NamedTuple):
    path: str
    name: str
    how: str  # to be read after the name


class _Placed(NamedTuple):
    path: str
    test: ScannedTest


def kind_of(path: str) -> str | None:
    """None: the file has no tests that we know of."""
    return next((kind for kind, names in _KINDS if names.fullmatch(path)), None)


def is_test_file(path: str) -> bool:
    """Whether a file is there for its tests. In Rust any file can have some beside its code."""
    kind = kind_of(path)
    return kind is not None and (kind != "rust" or "tests" in path.split("/")[:-1])


def lost_tests(revisions: Iterable[Revision]) -> list[Lost]:
    by_kind: dict[str, list[Revision]] = {}
    for revision in revisions:
        kind = kind_of(revision.path)
        if kind is not None:
            by_kind.setdefault(kind, []).append(revision)
    return [lost for kind, those in by_kind.items() for lost in _lost(kind.split(",")[0], those)]


def _lost(language: str, revisions: Sequence[Revision]) -> list[Lost]:
    lost: list[Lost] = []
    missing: list[_Placed] = []
    new: list[_Placed] = []
    for path, before, after in revisions:
        if before is None:
            continue
        old_tests, new_tests = _scan(language, before, after or "")
        left = _by_name(new_tests)
        for test in old_tests:
            if left.get(test.name):
                now = _Placed(path, left[test.name].pop(0))
                lost += _switched_off(_Placed(path, test), now)
            else:
                missing.append(_Placed(path, test))
        new += [_Placed(path, one) for those in left.values() for one in those]
    if missing:
        for path, before, after in revisions:
            if before is None and after is not None:
                new += [_Placed(path, one) for one in _scan(language, "", after)[1]]
        lost += _moved_or_gone(missing, new)
    return lost


def _moved_or_gone(missing: Sequence[_Placed], new: list[_Placed]) -> list[Lost]:
    lost: list[Lost] = []
    for old in missing:
        same = next((one for one in new if one.test.name == old.test.name), None)
        same = same or next((one for one in new if one.test.body == old.test.body), None)
        if same is None:
            lost.append(Lost(old.path, old.test.name, "is gone"))
        else:
            new.remove(same)
            lost += _switched_off(old, same)
    return lost


def _switched_off(old: _Placed, now: _Placed) -> list[Lost]:
    reasons = sorted(_reasons(now) - _reasons(old))
    if not reasons:
        return []
    return [Lost(old.path, old.test.name, f"is switched off ({', '.join(reasons)})")]


def _reasons(placed: _Placed) -> frozenset[str]:
    """In Go the name of a file can leave it out, too."""
    machine = go_machine(placed.path)
    return placed.test.off | {machine} if machine is not None else placed.test.off


def _by_name(tests: Iterable[ScannedTest]) -> dict[str, list[ScannedTest]]:
    found: dict[str, list[ScannedTest]] = {}
    for one in tests:
        found.setdefault(one.name, []).append(one)
    return found


def _scan(language: str, before: str, after: str) -> tuple[list[ScannedTest], list[ScannedTest]]:
    """Both in the same way: two ways would not find the same names."""
    if language != "python":
        scanner = _SCANNERS[language]
        return scanner(before), scanner(after)
    try:
        return python_tests(before), python_tests(after)
    except SyntaxError:
        return python_tests_by_line(before), python_tests_by_line(after)
