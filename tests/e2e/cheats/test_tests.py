"""Tests of the base may not be removed or disabled; criteria see only the commit."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.repos import UNCONTAINED, Repo, outcomes, refused_paths, waiver
from tests.verifying import verify

pytestmark = pytest.mark.requirement("HO-04", "HO-05")

SKIPPED = "import pytest\n@pytest.mark.skip\ndef test_login():\n    assert True\n"


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return Repo(tmp_path / "repo")


def test_a_skipped_test_is_refused_unless_a_policy_or_waiver_allows_it(
    tmp_path: Path, repo: Repo
) -> None:
    repo.commit("work", {"tests/test_login.py": SKIPPED, "src/auth/login.py": "x = 1\n"})
    strict, lenient, waived = verify(
        tmp_path,
        repo.job(),
        repo.job(policy={"test_removal": "allow"}),
        repo.job(waivers=[waiver("tests_kept", "tests/test_login.py")]),
    )
    assert not strict.accepted
    assert [violation.message for violation in strict.violations] == [
        "tests/test_login.py: test_login was disabled (skip)"
    ]
    assert "dispute_contract" in strict.violations[0].hint
    assert lenient.accepted
    assert waived.accepted
    assert outcomes(waived)["tests_kept"] == "waived"


def test_a_deleted_test_file_is_refused(tmp_path: Path, repo: Repo) -> None:
    repo.git("rm", "--quiet", "tests/test_login.py")
    repo.commit("work", {"src/auth/login.py": "x = 1\n"})
    (verdict,) = verify(tmp_path, repo.job())
    assert outcomes(verdict)["tests_kept"] == "failed"
    assert refused_paths(verdict) == ["tests/test_login.py"]


def test_a_renamed_and_extended_test_file_is_accepted(tmp_path: Path, repo: Repo) -> None:
    repo.git("mv", "tests/test_login.py", "tests/test_auth.py")
    text = "def test_login():\n    assert True\n\n\ndef test_logout():\n    assert True\n"
    repo.commit("work", {"tests/test_auth.py": text})
    (verdict,) = verify(tmp_path, repo.job(owned=["tests/"]))
    assert verdict.accepted, verdict.violations


def test_a_test_file_renamed_so_that_no_runner_finds_it_is_refused(
    tmp_path: Path, repo: Repo
) -> None:
    repo.git("mv", "tests/test_login.py", "tests/old_login.py")
    repo.commit("work")
    (verdict,) = verify(tmp_path, repo.job(owned=["tests/"]))
    assert outcomes(verdict)["tests_kept"] == "failed"


def test_criteria_are_run_on_the_commit_and_their_evidence_is_kept(
    tmp_path: Path, repo: Repo
) -> None:
    repo.commit("work", {"src/auth/login.py": "x = 1\n", "src/auth/a name": "seen\n"})
    criteria = [
        "Command passes: cat 'src/auth/a name'",
        "Command passes: false",
        "it is beautiful",
    ]
    (verdict,) = verify(
        tmp_path,
        repo.job(criteria=criteria, policy={"setup": ["touch made"], "generated": ["made"]}),
    )
    setup, seen, failed, prose = verdict.checks[5:]
    assert (setup.check, setup.outcome) == ("setup", "passed")
    assert (seen.outcome, seen.exit_code, seen.output_tail) == ("passed", 0, "seen\n")
    assert (failed.outcome, failed.exit_code) == ("failed", 1)
    assert prose.outcome == "unverifiable"
    assert [violation.message for violation in verdict.violations] == [
        "Command passes: false: exit code 1"
    ]


def test_criteria_are_not_run_when_the_setup_fails(tmp_path: Path, repo: Repo) -> None:
    repo.commit("work", {"src/auth/login.py": "x = 1\n"})
    criteria = ["Command passes: true"]
    (verdict,) = verify(tmp_path, repo.job(criteria=criteria, policy={"setup": ["false"]}))
    assert not verdict.accepted
    assert outcomes(verdict)["setup"] == "failed"
    assert outcomes(verdict)["criterion"] == "unverifiable"


def test_an_unverifiable_criterion_is_refused_if_the_policy_says_so(
    tmp_path: Path, repo: Repo
) -> None:
    repo.commit("work", {"src/auth/login.py": "x = 1\n"})
    allowed, refused, waived = verify(
        tmp_path,
        repo.job(),
        repo.job(policy={"unverifiable": "refuse"}),
        repo.job(policy={"unverifiable": "refuse"}, waivers=[waiver("criterion", "it works")]),
    )
    assert allowed.accepted
    assert outcomes(allowed)["criterion"] == "unverifiable"
    assert not refused.accepted
    assert [violation.check for violation in refused.violations] == ["criterion"]
    assert waived.accepted


def test_a_criterion_does_not_see_what_another_left_behind(tmp_path: Path, repo: Repo) -> None:
    """The first criterion runs code of the worker that rewrites the script of the second."""
    repo.base = repo.commit("set up", {"check.py": "raise SystemExit(3)\n"})
    repo.commit("work", {"src/auth/login.py": "open('check.py', 'w').write('')\n"})
    criteria = ["Command passes: python3 src/auth/login.py", "Command passes: python3 check.py"]
    (verdict,) = verify(tmp_path, repo.job(criteria=criteria, readonly=["check.py"]))
    assert [check.exit_code for check in verdict.checks[5:]] == [0, 3]
    assert not verdict.accepted


def test_every_criterion_sees_the_results_of_the_setup(tmp_path: Path, repo: Repo) -> None:
    repo.commit("work", {"src/auth/login.py": "x = 1\n"})
    criteria = ["Command passes: rm made", "it is beautiful", "Command passes: rm made"]
    (verdict,) = verify(
        tmp_path,
        repo.job(criteria=criteria, policy={"setup": ["touch made"], "generated": ["made"]}),
    )
    assert verdict.accepted, verdict.violations
    assert [check.check for check in verdict.checks[5:]] == ["setup", *["criterion"] * 3]


def test_a_setup_that_works_only_once_fails_the_claim(tmp_path: Path, repo: Repo) -> None:
    repo.commit("work", {"src/auth/login.py": "x = 1\n"})
    criteria = ["Command passes: true", "Command passes: true"]
    policy = UNCONTAINED | {"setup": [f"mkdir {tmp_path}/once"]}
    (verdict,) = verify(tmp_path, repo.job(criteria=criteria, policy=policy))
    assert [check.outcome for check in verdict.checks[5:]] == ["passed", "passed", "failed"]
    assert not verdict.accepted


def test_checkouts_are_removed_completely(tmp_path: Path, repo: Repo) -> None:
    repo.commit("work", {"src/auth/login.py": "x = 1\n"})
    criteria = ["Command passes: mkdir -m 000 shut", "Command passes: chmod 555 src .."]
    (verdict,) = verify(tmp_path, repo.job(criteria=criteria, policy=UNCONTAINED))
    assert verdict.accepted, verdict.checks
    checkouts = tmp_path / "verifier" / "checkouts"
    assert [one.name for one in checkouts.rglob("*")] == ["trash"]


def test_leftovers_of_an_earlier_verifier_are_removed(tmp_path: Path, repo: Repo) -> None:
    left = tmp_path / "verifier" / "checkouts" / "left" / "files"
    left.mkdir(parents=True)
    (left / "a").write_text("x")
    repo.commit("work", {"src/auth/login.py": "x = 1\n"})
    verify(tmp_path, repo.job())
    assert not left.parent.exists()
    assert [one.name for one in (tmp_path / "verifier/checkouts").rglob("*")] == ["trash"]


def test_large_new_files_do_not_hide_a_removed_test(tmp_path: Path, repo: Repo) -> None:
    repo.git("rm", "--quiet", "tests/test_login.py")
    filling = "# x\n" * 130_000
    pads = {f"tests/pad/test_{n:03}.py": f"# {n}\n{filling}" for n in range(100)}
    repo.commit("work", pads | {"src/auth/login.py": "x = 1\n"})
    (verdict,) = verify(tmp_path, repo.job(owned=["src/auth/", "tests/"]))
    assert [violation.message for violation in verdict.violations] == [
        "tests/test_login.py: test_login was removed"
    ]


def test_a_test_file_that_is_too_large_to_compare_is_named(tmp_path: Path, repo: Repo) -> None:
    filling = "# x\n" * 140_000
    repo.base = repo.commit("set up", {"tests/test_large.py": f"def test_a(): pass\n{filling}"})
    kept = "def test_login():\n    assert True\n"
    repo.commit("work", {"tests/test_large.py": "x = 1\n", "tests/test_login.py": kept + filling})
    (verdict,) = verify(tmp_path, repo.job(owned=["tests/"]))
    assert outcomes(verdict)["tests_kept"] == "failed"
    assert refused_paths(verdict) == ["tests/test_large.py", "tests/test_login.py"]
    assert all("too large" in violation.message for violation in verdict.violations)
