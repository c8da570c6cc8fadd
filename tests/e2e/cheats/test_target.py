"""The target branch is no place to hide changes: what came with it is listed, and what decides
about the work does not come from there without a receipt."""

from __future__ import annotations

from pathlib import Path

import pytest

from shiftboss.protocol.claims.verdicts import Verdict, VerificationJob
from shiftboss.rules.runs.squash import squash_message
from tests.repos import UNCONTAINED, Repo, outcomes, refused_paths, waiver
from tests.verifying import verify

pytestmark = pytest.mark.requirement("HO-04")

CHECK = "Command passes: python3 tools/check.py"


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    made = Repo(tmp_path / "repo")
    made.base = made.commit("set up", {"tools/check.py": "assert 1\n", "conftest.py": "x = 1\n"})
    made.git("branch", "--force", "main")
    return made


def move_main_here(repo: Repo) -> None:
    """Then go on with honest work."""
    repo.git("branch", "--force", "main", "HEAD")
    repo.commit("honest", {"src/auth/login.py": "x = 1\n"})


def refused(verdict: Verdict, *paths: str) -> None:
    assert not verdict.accepted
    assert outcomes(verdict)["scope"] == "failed"
    assert refused_paths(verdict) == sorted(paths)
    for one in verdict.violations:
        assert "came in from main, in a commit without a receipt" in one.message
        assert "waive" in one.hint


@pytest.mark.parametrize(
    "path",
    [
        "src/lib/jwt.py",  # files_readonly
        "conftest.py",  # configures the tests
        "tests/test_login.py",  # a test of the base, though the task owns it
        "tools/check.py",  # named in the criterion
        "tools/json.py",  # shadows the standard library for the criterion's command
    ],
)
def test_files_that_judge_the_work_cannot_be_changed_through_the_target(
    tmp_path: Path, repo: Repo, path: str
) -> None:
    evil = repo.commit("evil", {path: "x = 2\n", "shop.txt": "x\n"})
    move_main_here(repo)
    hidden, waived = verify(
        tmp_path,
        repo.job(criteria=[CHECK]),
        repo.job(criteria=[CHECK], waivers=[waiver("scope", path)]),
    )
    refused(hidden, path)
    assert hidden.violations[0].commit == evil
    assert hidden.merged_from_target == [evil]
    assert hidden.target_commit == evil
    assert outcomes(waived)["scope"] == "waived"


def test_a_change_reverted_by_a_later_commit_of_the_target_is_named(
    tmp_path: Path, repo: Repo
) -> None:
    repo.commit("evil", {"tools/check.py": ""})
    repo.git("revert", "--no-edit", "HEAD")
    move_main_here(repo)
    (verdict,) = verify(tmp_path, repo.job(criteria=[CHECK]))
    refused(verdict, "tools/check.py")


def test_a_merge_in_the_target_that_restores_an_old_file_is_found(
    tmp_path: Path, repo: Repo
) -> None:
    """On its own such a merge changes nothing: every file is that of a parent."""
    old = repo.base
    repo.base = repo.commit("stricter", {"tools/check.py": "assert 2\n"})
    repo.git("checkout", "--quiet", "-B", "main", repo.base)
    tree = repo.git("rev-parse", f"{old}^{{tree}}")
    merge = repo.git("commit-tree", "-p", repo.base, "-p", old, "-m", "Merge", tree)
    repo.git("checkout", "--quiet", "-B", "task", merge)
    move_main_here(repo)
    (verdict,) = verify(tmp_path, repo.job(criteria=[CHECK]))
    refused(verdict, "tools/check.py")


def test_target_commits_with_a_receipt_or_from_before_the_spawn_may_change_anything(
    tmp_path: Path, repo: Repo
) -> None:
    landed = repo.on_main({"tools/check.py": "assert 3\n", "src/lib/jwt.py": "x = 2\n"})
    repo.commit("work", {"src/auth/login.py": "x = 1\n"})
    repo.git("merge", "--quiet", "--message", "Merge main", "main")
    nobodys, with_receipt, from_before, other = verify(
        tmp_path,
        repo.job(criteria=[CHECK]),
        repo.job(criteria=[CHECK], accounted_commits=["1" * 40, landed]),
        repo.job(criteria=[CHECK], target_base=landed),
        repo.job(criteria=[CHECK], target_base=repo.base, accounted_commits=[repo.base]),
    )
    refused(nobodys, "src/lib/jwt.py", "tools/check.py")
    assert with_receipt.accepted, with_receipt.violations
    assert from_before.accepted, from_before.violations
    refused(other, "src/lib/jwt.py", "tools/check.py")


def test_work_landed_by_merges_is_recognised_by_its_receipts(tmp_path: Path, repo: Repo) -> None:
    landed = []
    for name in ("one", "two"):
        repo.git("checkout", "--quiet", "-b", name, repo.base)
        changed = {f"docs/{name}.md": "x\n", f"sub/{name}/conftest.py": "x = 1\n"}
        landed.append(repo.commit(name, changed))
        repo.git("checkout", "--quiet", "main")
        repo.git("merge", "--quiet", "--no-ff", "--message", f"Land {name}", name)
    repo.git("checkout", "--quiet", "task")
    repo.commit("work", {"src/auth/login.py": "x = 1\n"})
    repo.git("merge", "--quiet", "--message", "Merge main", "main")
    strict = {"target_commits": "receipts"}
    both, one = verify(
        tmp_path,
        repo.job(accounted_commits=landed, policy=strict),
        repo.job(accounted_commits=landed[:1], policy=strict),
    )
    assert both.accepted, both.violations
    assert len(both.merged_from_target) == 4
    refused(one, "docs/two.md", "sub/two/conftest.py")


def test_a_policy_can_require_a_receipt_for_every_change(tmp_path: Path, repo: Repo) -> None:
    repo.on_main({"README.md": "# Landed\n", "src/auth/names.py": "x = 3\n"})
    repo.commit("work", {"src/auth/login.py": "x = 1\n"})
    repo.git("merge", "--quiet", "--message", "Merge main", "main")
    trusting, strict = verify(tmp_path, repo.job(), repo.job(policy={"target_commits": "receipts"}))
    assert trusting.accepted, trusting.violations
    refused(strict, "README.md")


def _moving_main(repo: Repo, to: str) -> VerificationJob:
    """Someone moves main during the verification."""
    move = f"Command passes: git -C {repo.path} update-ref refs/heads/main {to}"
    return repo.job(criteria=[move], policy=UNCONTAINED)


def test_a_target_moved_back_after_the_claim_is_refused(tmp_path: Path, repo: Repo) -> None:
    repo.commit("not mine", {"shop.txt": "x\n"})
    move_main_here(repo)
    (verdict,) = verify(tmp_path, _moving_main(repo, repo.base))
    assert not verdict.accepted
    assert [violation.check for violation in verdict.violations] == ["branch"]
    assert "main no longer has the commit" in verdict.violations[0].message


def test_a_target_may_move_on_after_the_claim(tmp_path: Path, repo: Repo) -> None:
    repo.on_main({"README.md": "# Landed\n"})
    repo.commit("work", {"src/auth/login.py": "x = 1\n"})
    repo.git("merge", "--quiet", "--message", "Merge main", "main")
    later = repo.on_main({"README.md": "# Landed again\n"})
    repo.git("branch", "--force", "main", "main~1")
    (verdict,) = verify(tmp_path, _moving_main(repo, later))
    assert verdict.accepted, verdict.violations


def test_a_claimed_commit_with_a_receipt_is_judged_like_any_other(
    tmp_path: Path, repo: Repo
) -> None:
    """A receipt is about one contract; other contracts have other requirements."""
    repo.commit("work", {"README.md": "x\n"})
    (verdict,) = verify(tmp_path, repo.job(accounted_commits=[repo.head()]))
    assert outcomes(verdict)["scope"] == "failed"
    assert refused_paths(verdict) == ["README.md"]


def squash(repo: Repo, work: str, *, also: dict[str, str] | None = None) -> str:
    """Land a commit on `main` as a squash, as a run does; `also` are changes that slip in."""
    repo.git("checkout", "--quiet", "main")
    repo.git("merge", "--quiet", "--squash", work)
    message = squash_message("Work", bead_id="a", swarm_id="s", receipt_id=None, commit=work)
    landed = repo.commit(message, also)
    repo.git("checkout", "--quiet", "task")
    return landed


def test_squashed_work_is_recognised_by_the_receipt_of_its_commit(
    tmp_path: Path, repo: Repo
) -> None:
    """Neither a trailer nor a squash accounts for what else is in the target."""
    repo.git("checkout", "--quiet", "-b", "a", "main")
    work = repo.commit("work", {"tests/test_login.py": "def test_login():\n    assert 1\n"})
    repo.git("checkout", "--quiet", "task")
    squash(repo, work)
    repo.commit("own", {"src/auth/login.py": "x = 1\n"})
    repo.git("merge", "--quiet", "--no-edit", "main")
    honest, unplanned = verify(
        tmp_path, repo.job(accounted_commits=[work]), repo.job(accounted_commits=[])
    )
    assert honest.accepted, honest.violations
    refused(unplanned, "tests/test_login.py")


@pytest.mark.parametrize("where", ["before", "within"])
def test_a_squash_hides_no_other_change(tmp_path: Path, repo: Repo, where: str) -> None:
    evil = {"conftest.py": "x = 2\n"}
    repo.git("checkout", "--quiet", "-b", "a", "main")
    work = repo.commit("work", {"tests/test_login.py": "def test_login():\n    assert 1\n"})
    repo.git("checkout", "--quiet", "task")
    if where == "before":
        repo.on_main(evil)
    squash(repo, work, also=evil if where == "within" else None)
    repo.commit("own", {"src/auth/login.py": "x = 1\n"})
    repo.git("merge", "--quiet", "--no-edit", "main")
    (verdict,) = verify(tmp_path, repo.job(accounted_commits=[work]))
    assert "conftest.py" in refused_paths(verdict)


def test_a_squash_hides_no_merge_that_restored_an_old_file(tmp_path: Path, repo: Repo) -> None:
    """Such a merge changes nothing that one of its parents does not have."""
    weak = "def test_login():\n    pass\n"
    repo.git("checkout", "--quiet", "main")
    old = repo.commit("weak", {"tests/test_login.py": weak})
    strong = repo.commit("strong", {"tests/test_login.py": "def test_login():\n    assert 1\n"})
    repo.git("checkout", "--quiet", "-B", "task")
    repo.base = strong
    repo.git("checkout", "--quiet", "-b", "a", "main")
    work = repo.commit("work", {"shop.txt": "x\n"})
    repo.git("checkout", "--quiet", "-b", "side", old)
    side = repo.commit("side", {"side.txt": "x\n"})
    repo.git("checkout", "--quiet", "main")
    repo.git("merge", "--quiet", "--no-commit", "--no-ff", side)
    repo.commit("restores", {"tests/test_login.py": weak})
    squash(repo, work)
    repo.commit("own", {"src/auth/login.py": "x = 1\n"})
    repo.git("merge", "--quiet", "--no-edit", "main")
    (verdict,) = verify(tmp_path, repo.job(accounted_commits=[work]))
    assert refused_paths(verdict) == ["tests/test_login.py"]
