"""Work that is right for exactly the tests that its worker can read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from shiftboss.protocol.claims.verdicts import CheckResult, Verdict
from shiftboss.protocol.handoffs import HeldOutTests, held_out_hash
from shiftboss.rules.claims.held_out import NOT_RUN
from tests.repos import Repo, waiver
from tests.verifying import verify

pytestmark = pytest.mark.requirement("OWN-14")

VISIBLE = (
    "import unittest\nfrom src.auth.sums import square\n\n\nclass Seen(unittest.TestCase):\n"
    "    def test_two(self):\n        self.assertEqual(square(2), 4)\n"
)
HIDDEN_FILE = "tests/test_zebra.py"
HIDDEN = (
    "import unittest\nfrom src.auth.sums import square\n\n\nclass Zebra(unittest.TestCase):\n"
    "    def test_three(self):\n        self.assertEqual(square(3), 9)\n\n"
    "    def test_four(self):\n        self.assertEqual(square(4), 16)\n\n"
    "    def test_two(self):\n        self.assertEqual(square(2), 4)\n"
)
CRITERION = "Tests pass: python3 -m unittest tests.test_seen"
HELD_OUT = HeldOutTests(
    files={HIDDEN_FILE: HIDDEN}, criterion="Tests pass: python3 -m unittest tests.test_zebra"
)
HONEST = "def square(n):\n    return n * n\n"
SPECIAL_CASE = "def square(n):\n    if n == 2:\n        return 4\n    return 0\n"
COUNTER = (
    "CALLS = []\n\n\ndef square(n):\n    CALLS.append(n)\n    return 4 if len(CALLS) == 1 else 0\n"
)
SKIPS = (
    "import unittest\n\n\ndef square(n):\n    if n != 2:\n"
    "        raise unittest.SkipTest('later')\n    return 4\n"
)
EXITS = "import os\n\n\ndef square(n):\n    if n != 2:\n        os._exit(0)\n    return 4\n"
# With pytest, whose report is a file.
PYTEST_FILE = "from src.auth.sums import square\n\n\ndef test_zebra():\n    assert square(3) == 9\n"
FORGES_SUMMARY = (
    "import os\n\n\ndef square(n):\n    if n != 2:\n"
    "        print('1 passed in 0.01s', flush=True)\n        os._exit(0)\n    return 4\n"
)
FORGES = (
    "import os\n\n\ndef square(n):\n    if n != 2:\n"
    "        print('Ran 3 tests in 0.001s\\n\\nOK', flush=True)\n        os._exit(0)\n"
    "    return 4\n"
)


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    made = Repo(tmp_path / "repo")
    made.git("checkout", "--quiet", "main")
    made.base = made.commit("tests", {"tests/test_seen.py": VISIBLE, "tests/__init__.py": ""})
    made.git("checkout", "--quiet", "-B", "task", "main")
    return made


def verdict_on(
    repo: Repo,
    product: str,
    held_out: HeldOutTests | None = HELD_OUT,
    more: dict[str, str] | None = None,
    criteria: Sequence[str] = (CRITERION,),
    **members: object,
) -> Verdict:
    repo.commit("work", {"src/auth/sums.py": product, **(more or {})})
    policy = {"mutants": "off", "canaries": "off"}
    claim = repo.job(criteria=list(criteria), policy=policy, held_out=held_out, **members)
    (verdict,) = verify(repo.path.parent, claim)
    return verdict


def held_out_check(verdict: Verdict) -> CheckResult:
    (found,) = [check for check in verdict.checks if check.check == "held_out"]
    return found


def test_honest_work_passes_the_tests_that_it_has_not_seen(repo: Repo) -> None:
    verdict = verdict_on(repo, HONEST)
    assert verdict.accepted, verdict.violations
    check = held_out_check(verdict)
    assert check.message == f"3 held-out tests pass; sha256 {held_out_hash(HELD_OUT)}"


@pytest.mark.parametrize(
    ("product", "problem"),
    [
        (SPECIAL_CASE, "2 of 3 held-out tests fail"),
        (COUNTER, "3 of 3 held-out tests fail"),
        (SKIPS, "2 of 3 held-out tests fail"),
        (EXITS, None),
        (FORGES, None),
    ],
)
def test_code_for_the_visible_tests_alone_is_refused(
    repo: Repo, product: str, problem: str | None
) -> None:
    verdict = verdict_on(repo, product)
    assert not verdict.accepted
    assert [violation.check for violation in verdict.violations] == ["held_out"]
    if problem is not None:
        assert verdict.violations[0].message == problem
    shown = verdict.model_dump_json().lower()
    assert not any(word in shown for word in ("zebra", "test_three", "square(3)"))
    check = held_out_check(verdict)
    assert (check.output_tail, check.exit_code) == (None, None)


def test_a_summary_that_the_code_prints_itself_is_no_report(repo: Repo) -> None:
    tests = HeldOutTests(
        files={HIDDEN_FILE: PYTEST_FILE},
        criterion=f"Tests pass: python3 -m pytest -q -s {HIDDEN_FILE}",
    )
    verdict = verdict_on(repo, FORGES_SUMMARY, tests)
    assert [violation.message for violation in verdict.violations] == [NOT_RUN]


def test_such_code_is_accepted_without_held_out_tests(repo: Repo) -> None:
    """So it is these that refuse it."""
    assert verdict_on(repo, SPECIAL_CASE, None).accepted


def test_the_operator_can_waive_it(repo: Repo) -> None:
    waived = [waiver("held_out", "*")]
    verdict = verdict_on(repo, SPECIAL_CASE, waivers=waived)
    assert verdict.accepted
    assert held_out_check(verdict).outcome == "waived"


def test_a_waiver_of_another_check_does_not_switch_them_off(repo: Repo) -> None:
    impossible = "Command passes: false"
    verdict = verdict_on(
        repo,
        SPECIAL_CASE,
        criteria=(CRITERION, impossible),
        waivers=[waiver("criterion", impossible)],
    )
    assert [violation.check for violation in verdict.violations] == ["held_out"]


def test_a_folder_or_a_link_in_its_place_does_not_keep_a_held_out_test_out(repo: Repo) -> None:
    in_its_place = {f"{HIDDEN_FILE}/__init__.py": ""}
    owned = ["src/auth/", "tests/test_zebra.py/"]
    verdict = verdict_on(repo, SPECIAL_CASE, more=in_its_place, owned=owned)
    assert [violation.check for violation in verdict.violations] == ["held_out"]


def test_without_a_criterion_of_their_own_they_run_with_those_of_the_contract(repo: Repo) -> None:
    tests = HeldOutTests(files={"tests/test_seen.py": HIDDEN})
    verdict = verdict_on(repo, SPECIAL_CASE, tests)
    assert [violation.message for violation in verdict.violations] == ["2 of 3 held-out tests fail"]
