"""Which changes may come from the target branch, and which files commands read."""

from __future__ import annotations

from typing import Any

import pytest

from shiftboss.protocol.handoffs import Contract, VerificationPolicy
from shiftboss.rules.paths.changes import CommitChange, FileChange
from shiftboss.rules.paths.command_paths import NamedFiles
from shiftboss.rules.paths.ownership import Ownership
from shiftboss.rules.paths.scope import TargetGuard
from shiftboss.rules.paths.shadowing import Shadowing

CRITERIA = [
    "Command passes: python3 ./tools/check.py --config=etc/check.toml",
    "Tests pass: pytest tests/login.py::test_x src",
    "Type check passes: python3 -m lint.all --strict",
    "Command passes: needs | a shell",
    "tools/prose.py is fine",
]


def contract(**members: Any) -> Contract:
    made: dict[str, Any] = {
        "task_id": "t",
        "files_owned": ["src/auth/", "tests/test_mine.py", "tools/mine.py"],
        "files_readonly": ["src/lib/"],
        "dependencies_completed": [],
        "success_criteria": CRITERIA,
    }
    return Contract(**(made | members))


@pytest.mark.parametrize(
    "path",
    [
        *("tools/check.py", "etc/check.toml", "tests/login.py", "setup.sh"),
        *("lint/all.py", "lint/all/__main__.py", "lint/__init__.py"),
    ],
)
def test_files_that_commands_read(path: str) -> None:
    assert NamedFiles(contract().success_criteria, ["sh setup.sh"]).includes(path)


@pytest.mark.parametrize(
    "path",
    ["src/app.py", "tools/other.py", "json.py", "tools/prose.py", "lint/other.py", "json/tools/x"],
)
def test_files_that_commands_do_not_read(path: str) -> None:
    assert not NamedFiles(contract().success_criteria, []).includes(path)


def brought(path: str, commit: str = "c1") -> CommitChange:
    return CommitChange(commit, False, FileChange(path, "A", "000000", "100644", "a", "b"))


def objected_to(*paths: str, **policy: Any) -> list[str | None]:
    names = {"tests/test_mine.py", "tests/test_other.py", "src/code.rs", "tests/it.rs", "lib/x.py"}
    ownership = Ownership(contract().files_owned, contract().files_readonly, [])
    shadowing = Shadowing(ownership, {*names, *paths}, CRITERIA, [], {"mk/flags": "Makefile"})
    guard = TargetGuard(contract(), VerificationPolicy(**policy), names, shadowing)
    return [violation.path for violation in guard.violations("main", map(brought, paths))]


def test_files_used_for_checking_may_not_come_from_the_target() -> None:
    paths = ["src/lib/x.py", "conftest.py", "tests/test_mine.py", "tests/it.rs", "tools/check.py"]
    assert objected_to(*paths, "README.md", *paths) == paths


def test_files_used_instead_of_those_for_checking_may_not_come_from_the_target() -> None:
    paths = [
        *("tests/test_other/__init__.py", "tests/test_mine.so"),
        *("tools/json.py", "tools/json/__init__.py", "pluggy.py", "src/json.py", "mk/flags"),
    ]
    assert objected_to(*paths) == paths
    assert objected_to("app/json.py", "lib/x/__init__.py", "other/__init__.py") == []


def test_ordinary_files_and_files_the_task_owns_may_come_from_the_target() -> None:
    paths = ["README.md", "src/auth/x.py", "tools/mine.py", "tests/test_new.py", "src/code.rs"]
    assert objected_to(*paths) == []


def test_where_receipts_are_asked_for_nothing_else_comes_along() -> None:
    assert objected_to("README.md", "src/auth/x.py", target_commits="receipts") == ["README.md"]


def test_tests_may_come_from_the_target_if_test_removal_is_allowed() -> None:
    paths = ["tests/test_mine.py", "tests/test_other.py"]
    assert objected_to(*paths) == paths
    assert objected_to(*paths, test_removal="allow") == []
