"""Mutants of the changed lines, run with real git and real tests."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from shiftboss.evidence.checks.mutants import check_mutants
from shiftboss.evidence.mirror.changes import changed_lines
from shiftboss.protocol.claims.verdicts import MutantTotals
from shiftboss.protocol.handoffs import VerificationPolicy
from shiftboss.rules.claims.mutants.outcome import NOT_RUN, NOTHING_TO_CHANGE
from shiftboss.rules.claims.test_runs.judgement import CommandRun
from shiftboss.rules.claims.verdicts import CheckOutcome, with_waivers
from tests.e2e.evidence.mutant_claims import EMPTY_TESTS, SHOP, TESTS, MutantClaim
from tests.ended_runs import ended
from tests.repos import Repo, outcomes, waiver
from tests.verifying import verify

pytestmark = pytest.mark.requirement("OWN-13")


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return Repo(tmp_path / "repo")


def test_tests_that_notice_the_work_pass(tmp_path: Path, repo: Repo) -> None:
    """The first run has all changes at once; then they are made one by one."""
    before = SHOP.replace("return result - discount", "return result").partition("\n\n\n")[0]
    repo.base = repo.commit("base", {"shop.py": f"{before}\n", "test_shop.py": TESTS})
    repo.commit("work", {"shop.py": SHOP})
    claim = MutantClaim(tmp_path, repo, mutant_seconds=60)
    result = asyncio.run(claim.check(green_seconds=0.2)).result
    assert result.outcome == "passed", result
    assert result.message == "2 of 3 mutants noticed, 2 changes at once noticed"
    survivor, together, *noticed = [(mutant.line, mutant.killed_by) for mutant in result.mutants]
    assert (survivor, together[1]) == ((10, None), "test_total")
    assert noticed == [(6, "test_total")] * 2
    assert result.sandbox is not None
    assert claim.limits == [2.0] * 4


def test_tests_that_notice_nothing_are_refused_after_one_run(tmp_path: Path, repo: Repo) -> None:
    repo.commit("work", {"shop.py": SHOP, "test_shop.py": EMPTY_TESTS})
    claim = MutantClaim(tmp_path, repo)
    checked = asyncio.run(claim.check())
    assert checked.result.outcome == "failed"
    assert len(claim.limits) == 1
    assert len(checked.result.mutants) >= 3
    assert all(mutant.killed_by is None for mutant in checked.result.mutants)
    (violation,) = checked.violations
    assert "they do not test this work (for example shop.py line " in violation.message
    assert "request_scope" in violation.hint
    assert "dispute_contract" in violation.hint
    criterion = checked.result.subject
    assert criterion is not None
    assert with_waivers(checked, [waiver("mutants", criterion)]).result.outcome == "waived"


def test_a_setup_that_installs_a_copy_is_repeated_with_the_mutants(
    tmp_path: Path, repo: Repo
) -> None:
    """The tests use the copy, so they cannot notice a change of the original."""
    tests = TESTS.replace("import shop", "import sys; sys.path.insert(0, 'installed'); import shop")
    setup = f'{sys.executable} -c \'import shutil; shutil.copytree("src", "installed")\''
    repo.commit("work", {"src/shop.py": SHOP, "test_shop.py": tests})
    claim = MutantClaim(tmp_path, repo, setup=[setup])
    result = asyncio.run(claim.check()).result
    assert (result.outcome, result.mutants[0].killed_by) == ("passed", "test_total")
    assert claim.runs_with_setup == 1

    repo.commit("worse", {"test_shop.py": tests.replace("self.assertEqual", "print")})
    claim = MutantClaim(tmp_path / "second", repo, setup=[setup])
    assert asyncio.run(claim.check()).result.outcome == "failed"


def test_work_without_a_line_to_change_passes(tmp_path: Path, repo: Repo) -> None:
    """Documents, tests, comments, generated code, and files that cannot be read as text."""
    repo.write(
        {
            "README.md": "# Shop\n\nfor 1 < 2\n",
            "tests/test_login.py": "def test_login():\n    assert 1 + 1 == 2\n",
            "src/auth/login.py": "def login():\n    # todo: 1 + 1\n    return None\n",
            "src/shop_pb2.py": SHOP,
            "src/made/shop.py": SHOP,
            "src/huge.py": "x = 1 + 2\n" * 30_000,
        }
    )
    (repo.path / "src/latin.py").write_bytes(b"x = 1 + 2  # \xe9\n")
    (repo.path / "src/link.py").symlink_to("auth/login.py")
    repo.commit("work")
    claim = MutantClaim(tmp_path, repo, generated=["src/made/"])
    result = asyncio.run(claim.check()).result
    assert (result.outcome, result.message) == ("passed", NOTHING_TO_CHANGE)
    assert claim.limits == []


Answer = Callable[[str], CommandRun | None]


def always(run: CommandRun) -> Answer:
    return lambda _: run


async def checked_with(
    claim: MutantClaim,
    policy: dict[str, object],
    answer: Answer,
    green_seconds: float,
    answer_with_setup: Answer | None = None,
) -> tuple[CheckOutcome, int]:
    """The check if the run with a mutated file ends with this answer, and the number of runs."""
    runs = 0

    async def run(files: Mapping[str, bytes], seconds: float) -> CommandRun | None:
        nonlocal runs
        runs += 1
        (content,) = files.values()
        return answer(content.decode())

    async def run_with_setup(files: Mapping[str, bytes], seconds: float) -> CommandRun | None:
        (content,) = files.values()
        return (answer_with_setup or answer)(content.decode())

    async with claim.mirror() as mirror:
        checked = await check_mutants(
            await claim.work(mirror),
            VerificationPolicy.model_validate(policy),
            "Tests pass: x",
            ended(0, seconds=green_seconds),
            run,
            run_with_setup,
        )
    return checked, runs


def test_mutants_run_within_their_time(tmp_path: Path, repo: Repo) -> None:
    """No time passes here: the first run says how long it took."""
    repo.commit("work", {"shop.py": SHOP})
    cases: list[tuple[dict[str, object], int, int]] = [
        # As long as the green run; the first mutant may take longer.
        ({}, 10, 1),
        ({}, 200, 1),
        ({"mutants": {"require": 0.5}}, 10, 1),
        # The first would take more than twice the longest time.
        ({}, 300, 0),
        ({"mutant_seconds": 3}, 10, 0),
        # One at once, and one for each mutation.
        ({"mutant_seconds": 50}, 10, 10),
    ]

    async def check() -> None:
        claim = MutantClaim(tmp_path, repo)
        for policy, green_seconds, expected in cases:
            took = ended(1, "test_a", seconds=green_seconds)
            checked, runs = await checked_with(claim, policy, always(took), green_seconds)
            assert runs == expected, policy
            assert checked.result.outcome == ("passed" if runs else "unverifiable")

    asyncio.run(check())


def test_more_mutants_run_while_too_few_are_judged(tmp_path: Path, repo: Repo) -> None:
    """Two changed lines give two changes at once. Their survival says too little."""
    repo.commit("work", {"shop.py": "def f(a, b):\n    g(b)\n    return a < b\n"})
    claim = MutantClaim(tmp_path, repo)
    checked, runs = asyncio.run(checked_with(claim, {}, always(ended(0, seconds=1)), 1))
    assert runs == 2
    assert checked.result.outcome == "failed"


GO_FUNCTION = "func f{0}(a int, b int) bool {{\n\treturn a == b\n}}\n\n"
GO = "package shop\n\n" + "".join(GO_FUNCTION.format(number) for number in range(10))


def test_one_mutant_that_does_not_compile_leaves_the_others(tmp_path: Path, repo: Repo) -> None:
    """Nobody knows which of the changes at once the compiler refuses."""
    repo.commit("work", {"shop.go": GO})
    broken = GO_FUNCTION.format(3)

    def compiled(text: str) -> CommandRun:
        if broken not in text:
            return ended(1, output="FAIL\tshop [build failed]")
        return ended(0)

    claim = MutantClaim(tmp_path, repo)
    checked, runs = asyncio.run(checked_with(claim, {"mutant_seconds": 60}, compiled, 1))
    assert 4 <= runs <= 5, "all at once, three that compile, and perhaps the one that does not"
    assert checked.result.outcome == "failed"
    assert checked.result.mutant_totals == MutantTotals(tried=3, killed=0)

    never = always(ended(1, output="FAIL\tshop [build failed]"))
    checked, runs = asyncio.run(checked_with(claim, {"mutant_seconds": 60}, never, 1))
    assert runs == 11
    assert (checked.result.outcome, checked.result.message) == ("unverifiable", NOT_RUN)


def test_all_mutants_are_counted_and_fifty_are_listed(tmp_path: Path, repo: Repo) -> None:
    functions = "".join(GO_FUNCTION.format(number) for number in range(60))
    repo.commit("work", {"shop.go": f"package shop\n\n{functions}"})
    survivor = GO_FUNCTION.format(3)

    def answer(text: str) -> CommandRun:
        return ended(1, "TestF") if survivor in text else ended(0)

    claim = MutantClaim(tmp_path, repo)
    policy: dict[str, object] = {"mutants": {"require": 0.5}, "mutant_seconds": 60}
    result = asyncio.run(checked_with(claim, policy, answer, 1))[0].result
    assert result.mutant_totals == MutantTotals(tried=60, killed=59)
    assert [mutant.killed_by for mutant in result.mutants] == [None, *["TestF"] * 49]
    assert result.sandbox == "namespaces"


def test_survivors_that_cannot_be_made_at_once_are_confirmed_one_by_one(
    tmp_path: Path, repo: Repo
) -> None:
    """Changes of boundaries are never made at once, and here no other change compiles."""
    repo.commit("work", {"shop.go": GO.replace("==", "<")})

    def answer(text: str, boundary: CommandRun) -> CommandRun:
        return ended(1, output="FAIL\tshop [build failed]") if ">=" in text else boundary

    claim = MutantClaim(tmp_path, repo)
    policy: dict[str, object] = {"mutant_seconds": 60, "setup": ["make"]}
    for noticed, outcome in ((ended(1, "TestF"), "passed"), (ended(0), "failed")):
        with_setup = partial(answer, boundary=noticed)
        checked, _ = asyncio.run(
            checked_with(claim, policy, partial(answer, boundary=ended(0)), 1, with_setup)
        )
        assert checked.result.outcome == outcome


def test_changed_lines_are_those_of_git(tmp_path: Path, repo: Repo) -> None:
    before = {
        "kept.py": "a\nb\nc\n",
        "with space.py": "a\n",
        "old name.py": "one\ntwo\nthree\nfour\nfive\n",
        "gone.py": "a\n",
    }
    repo.base = repo.commit("base", before)
    after = {
        "kept.py": "new\na\n++ b/trap.py\nc\n@@ -1 +1 @@\n",
        "with space.py": "b\n",
        "fresh.py": "a\nb\n",
        "gone.py": "",
    }
    repo.git("mv", "old name.py", "new name.py")
    repo.commit("work", after | {"new name.py": "one\ntwo\nthree\nfour\nchanged\n"})

    async def lines() -> dict[str, frozenset[int]]:
        claim = MutantClaim(tmp_path, repo)
        async with claim.mirror() as mirror:
            work = await claim.work(mirror)
            return await changed_lines(mirror, work.before, work.after, work.files)

    assert asyncio.run(lines()) == {
        "kept.py": {1, 3, 5},
        "with space.py": {1},
        "new name.py": {5},
        "fresh.py": {1, 2},
    }


def test_a_claim_whose_tests_notice_nothing_is_refused_unless_waived(
    tmp_path: Path, repo: Repo
) -> None:
    """The tests call the new code, and look at nothing that it returns."""
    repo.commit("work", {"shop.py": SHOP, "test_shop.py": EMPTY_TESTS})
    criterion = "Tests pass: python3 -m unittest test_shop"
    members: dict[str, Any] = {"criteria": [criterion], "owned": ["shop.py", "test_shop.py"]}
    policy = {"canaries": "off"}
    refused, waived, unasked = verify(
        tmp_path,
        repo.job(policy=policy, **members),
        repo.job(policy=policy, waivers=[waiver("mutants", "*")], **members),
        repo.job(policy={**policy, "mutants": "off"}, **members),
    )
    assert not refused.accepted
    assert {violation.check for violation in refused.violations} == {"mutants"}
    assert waived.accepted
    assert outcomes(waived)["mutants"] == "waived"
    assert unasked.accepted
    assert "mutants" not in outcomes(unasked)


def test_one_criterion_whose_tests_notice_the_work_is_enough(tmp_path: Path, repo: Repo) -> None:
    other = EMPTY_TESTS.replace("import shop\n", "").replace("shop.total([1, 2], 1)", "pass")
    repo.base = repo.commit("base", {"test_other.py": other})
    repo.commit("work", {"shop.py": SHOP, "test_shop.py": TESTS})
    criteria = [f"Tests pass: python3 -m unittest {name}" for name in ("test_other", "test_shop")]
    job = repo.job(criteria=criteria, owned=["shop.py", "test_shop.py"], policy={"canaries": "off"})
    (verdict,) = verify(tmp_path, job)
    assert verdict.accepted, verdict.violations
    results = [check for check in verdict.checks if check.check == "mutants"]
    assert [result.subject for result in results] == criteria
    assert "another criterion" in results[0].message
    assert results[1].mutants[0].killed_by is not None
