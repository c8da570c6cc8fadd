"""Branch names, the shape of a tree, ownership, waivers and acceptance."""

from __future__ import annotations

import unicodedata

import pytest

from shiftboss.protocol.claims.verdicts import CheckResult, Violation, Waiver
from shiftboss.protocol.handoffs import VerificationPolicy
from shiftboss.rules.claims.verdicts import (
    CheckOutcome,
    failed,
    is_accepted,
    passed,
    passed_unless_violated,
    unverifiable,
    with_policy,
    with_waivers,
)
from shiftboss.rules.paths.branch_names import is_branch_name, ref_part
from shiftboss.rules.paths.changes import collisions, link_violation
from shiftboss.rules.paths.ownership import Ownership


@pytest.mark.parametrize("name", ["main", "task/bd-1.2", "fix_ü", "a.b", "x@y", "feature/#12"])
def test_valid_branch_names(name: str) -> None:
    assert is_branch_name(name)


@pytest.mark.parametrize(
    "name",
    [
        *("", "-x", "/a", "a/", "a//b", "a..b", ".a", "a/.b", "a.lock", "a.lock/b", "a."),
        *(
            "a b",
            "a~1",
            "a^",
            "a:b",
            "a?",
            "a*",
            "a[",
            "a\\b",
            "@",
            "HEAD",
            "a@{1}",
            "a\n",
            "x" * 201,
        ),
    ],
)
def test_invalid_branch_names(name: str) -> None:
    assert not is_branch_name(name)


@pytest.mark.parametrize("target", [b"b", b"./b", b"../x", b"../../top", b"c/d", b"..", b"a..b"])
def test_a_symlink_may_point_anywhere_inside_the_tree(target: bytes) -> None:
    assert link_violation("one/two/link", target) is None


@pytest.mark.parametrize(
    "target", [b"/", b"/x", b"../../../x", b"c/../d", b"../.git/x", b"../.GIT", b"c/../../../.."]
)
def test_a_symlink_may_not_point_outside_the_tree(target: bytes) -> None:
    assert link_violation("one/two/link", target) is not None


def test_paths_collide_by_case_unicode_form_and_folder() -> None:
    decomposed = unicodedata.normalize("NFD", "é")
    added = ["src/A.py", "src/new.py", "DOCS/x.md", f"{decomposed}.txt"]
    names = [*added, "src/a.py", "docs/y.md", "é.txt", "src/other.py"]
    assert collisions(added, names) == {
        "src/A.py": "src/a.py",
        "DOCS/x.md": "docs",
        f"{decomposed}.txt": "é.txt",
    }


def _ownership(owned: list[str], readonly: list[str], generated: list[str]) -> Ownership:
    return Ownership(owned, readonly, generated)


def test_a_contract_decides_which_files_may_change() -> None:
    ownership = _ownership(["src/", "conftest.py"], ["src/api.py"], ["gen/", "src/api.pyi"])
    for path in ("src/a.py", "conftest.py", "gen/x", "src/api.pyi"):
        assert ownership.refusal(path) is None
    for path in ("README.md", "src/api.py", "src/conftest.py", "gen/package.json", "x/.git/y"):
        refusal = ownership.refusal(path)
        assert refusal is not None
        assert refusal.hint
    assert ownership.refusal("src/sub", is_submodule=True) is not None


def _violation(path: str) -> Violation:
    return Violation(check="scope", message=path, hint="h", path=path)


def _waiver(check: str, subject: str) -> Waiver:
    return Waiver(check=check, subject=subject, reason="r", granted_by="operator")


def test_a_waiver_removes_only_its_own_violation() -> None:
    checked = passed_unless_violated("scope", [_violation("a"), _violation("b")], "fine")
    some = with_waivers(checked, [_waiver("scope", "a")])
    assert some.result.outcome == "failed"
    assert [violation.path for violation in some.violations] == ["b"]
    for waivers in ([_waiver("scope", "*")], [_waiver("scope", "a"), _waiver("scope", "b")]):
        waived = with_waivers(checked, waivers)
        assert waived.result.outcome == "waived"
        assert waived.violations == ()
    assert with_waivers(checked, [_waiver("branch", "*")]) == checked


def test_a_failed_criterion_is_waived_by_its_text() -> None:
    result = CheckResult(check="criterion", outcome="failed", message="no", subject="Tests pass: x")
    checked = CheckOutcome(result, [Violation(check="criterion", message="no", hint="h")])
    assert with_waivers(checked, [_waiver("criterion", "Tests pass: y")]) == checked
    waived = with_waivers(checked, [_waiver("criterion", "Tests pass: x")])
    assert waived.result.outcome == "waived"


@pytest.mark.requirement("OWN-15")
def test_a_worker_whose_work_cannot_be_verified_is_told_the_way_out() -> None:
    unclear = unverifiable("criterion", "prose", "it is beautiful")
    (violation,) = with_policy(unclear, VerificationPolicy(unverifiable="refuse")).violations
    assert "dispute_contract" in violation.hint


def test_work_is_accepted_when_nothing_failed() -> None:
    strict = VerificationPolicy(unverifiable="refuse")
    lenient = VerificationPolicy(unverifiable="allow")
    unclear = unverifiable("criterion", "prose", "it is beautiful")
    assert is_accepted([passed("commit", "is")], strict)
    assert not is_accepted([passed("commit", "is"), failed("branch", "no", "h")], lenient)
    assert is_accepted([unclear], lenient)
    assert not is_accepted([unclear], strict)
    refused = with_policy(unclear, strict)
    assert [violation.check for violation in refused.violations] == ["criterion"]
    assert is_accepted([with_waivers(refused, [_waiver("criterion", "*")])], strict)


@pytest.mark.parametrize(
    ("task_id", "part"),
    [
        ("bd-1", "bd-1"),
        ("v1.2", "v1.2"),
        ("a:b", "a%3Ab"),
        ("a..b", "a%2E%2Eb"),
        ("a.lock", "a%2Elock"),
        ("a.", "a%2E"),
    ],
)
def test_every_task_id_makes_a_valid_ref_name(task_id: str, part: str) -> None:
    assert ref_part(task_id) == part
    assert is_branch_name(part)
