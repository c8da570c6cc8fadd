"""Tests disabled in ways that the source does not show are missing from the count."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.repos import UNCONTAINED, Repo, outcomes, waiver
from tests.verifying import verify

pytestmark = pytest.mark.requirement("HO-05")

UNITTEST = "Tests pass: python3 -m unittest tests.test_sums"
PYTEST = "Tests pass: python3 -m pytest -q -p no:cacheprovider tests/test_sums.py"
SUMS = """\
import unittest

class Sums(unittest.TestCase):
    def test_one(self):
        self.assertEqual(1 + 1, 2)
    def test_two(self):
        import shop
        self.assertEqual(shop.total([2]), 2)
    def test_three(self):
        pass
    @unittest.skip("at the base already")
    def test_four(self):
        pass
"""
SHOP = "def total(prices):\n    return sum(prices)\n"


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    """At the base one of three tests fails."""
    made = Repo(tmp_path / "repo")
    made.base = made.commit("set up", {"tests/test_sums.py": SUMS, "shop.py": "total = len\n"})
    return made


@pytest.mark.parametrize(
    "cheat",
    [
        {"tests/test_sums.py": f"{SUMS}\nsetattr(Sums, 'test_' + 'two', None)\n"},
        {"tests/test_sums.py": f"{SUMS}\nvars(Sums)['test_two'].__unittest_skip__ = True\n"},
        {
            "tests/test_sums.py": SUMS.replace("import shop", "import tests.off as o; o.later()"),
            "tests/off.py": "import unittest\ndef later():\n    raise unittest.SkipTest\n",
        },
        # The process exits before the tests are finished.
        {"shop.py": "import os\nos._exit(0)\n"},
    ],
)
def test_fewer_tests_than_at_the_base_are_refused(
    tmp_path: Path, repo: Repo, cheat: dict[str, str]
) -> None:
    repo.commit("work", {"shop.py": SHOP} | cheat)
    (verdict,) = verify(tmp_path, repo.job(owned=["shop.py", "tests/"], criteria=[UNITTEST]))
    assert outcomes(verdict)["tests_kept"] == "passed"
    assert [violation.check for violation in verdict.violations] == ["criterion"]
    message = verdict.violations[0].message
    assert "1 test that ran at the base does not pass now" in message or "cut off" in message


def test_passing_the_tests_of_the_base_is_accepted_and_the_base_is_counted_once(
    tmp_path: Path, repo: Repo
) -> None:
    log = tmp_path / "log"
    note = f"\nopen({str(log)!r}, 'a').write('x')\n"
    repo.base = repo.commit("count", {"tests/test_sums.py": SUMS + note})
    repo.commit("work", {"shop.py": SHOP})
    once = {"canaries": "off", "mutants": "off", **UNCONTAINED}
    job = repo.job(owned=["shop.py", "tests/"], criteria=[UNITTEST], policy=once)
    for runs in (2, 3):
        (verdict,) = verify(tmp_path, job)
        assert verdict.accepted, verdict.violations
        assert len(log.read_text()) == runs


def test_a_task_that_may_remove_tests_is_not_held_to_the_count(tmp_path: Path, repo: Repo) -> None:
    fewer = SUMS.replace("def test_three", "def three")
    repo.commit("work", {"shop.py": SHOP, "tests/test_sums.py": fewer})
    members: dict[str, Any] = {"owned": ["shop.py", "tests/"], "criteria": [UNITTEST]}
    refused, allowed, waived = verify(
        tmp_path,
        repo.job(**members),
        repo.job(**members, policy={"test_removal": "allow"}),
        repo.job(**members, waivers=[waiver("tests_kept", "tests/test_sums.py")]),
    )
    assert not refused.accepted
    assert allowed.accepted, allowed.violations
    assert waived.accepted, waived.violations


def test_a_base_without_these_tests_requires_no_count(tmp_path: Path, repo: Repo) -> None:
    repo.commit("work", {"tests/test_new.py": SUMS.replace("import shop", "return")})
    criterion = UNITTEST.replace("test_sums", "test_new")
    (verdict,) = verify(tmp_path, repo.job(owned=["tests/"], criteria=[criterion]))
    assert verdict.accepted, verdict.violations


def test_pytest_tests_are_counted_too(tmp_path: Path, repo: Repo) -> None:
    tests = "def test_a():\n    assert 1\n\n\ndef test_b():\n    assert 0\n"
    repo.base = repo.commit("plain", {"tests/test_sums.py": tests})
    repo.commit("work", {"tests/test_sums.py": f"{tests}\n\nvars().pop('test_' + 'b')\n"})
    (verdict,) = verify(tmp_path, repo.job(owned=["tests/"], criteria=[PYTEST]))
    assert outcomes(verdict)["tests_kept"] == "passed"
    assert "does not pass now: tests/test_sums.py::test_b" in verdict.violations[0].message
