"""A claim has to be about a commit that is on the task's branch, and stays there."""

from __future__ import annotations

import hashlib
import itertools
from pathlib import Path

import pytest

from shiftboss.errors import EvidenceUnavailable, UnknownRepo
from shiftboss.protocol.claims.verdicts import RejectedWork, Verdict
from tests.repos import UNCONTAINED, Repo, outcomes, waiver
from tests.verifying import verify

pytestmark = pytest.mark.requirement("HO-04")


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    made = Repo(tmp_path / "repo")
    made.commit("work", {"src/auth/login.py": "x = 1\n"})
    return made


def refused_by(verdict: Verdict, check: str) -> str:
    """The message of the only violation, which must be of this check."""
    assert not verdict.accepted
    assert outcomes(verdict)[check] == "failed"
    assert [violation.check for violation in verdict.violations] == [check]
    assert verdict.violations[0].hint
    return verdict.violations[0].message


def test_a_commit_on_another_branch_is_refused(tmp_path: Path, repo: Repo) -> None:
    repo.git("checkout", "--quiet", "-b", "other")
    elsewhere = repo.commit("elsewhere", {"src/auth/names.py": "x = 2\n"})
    (verdict,) = verify(tmp_path, repo.job(commit=elsewhere))
    assert "is not on the branch task" in refused_by(verdict, "branch")


def test_a_commit_on_no_branch_is_refused(tmp_path: Path, repo: Repo) -> None:
    lost = repo.commit("lost", {"src/auth/names.py": "x = 2\n"})
    found, *_ = verify(tmp_path, repo.job(branch=None))
    assert found.accepted
    repo.git("reset", "--quiet", "--hard", "HEAD~1")
    # The mirror has the commit from before; that does not make it a commit of a branch.
    on_none, not_on_task = verify(
        tmp_path, repo.job(commit=lost, branch=None), repo.job(commit=lost)
    )
    assert "is not on a branch" in refused_by(on_none, "branch")
    refused_by(not_on_task, "branch")


def test_a_commit_without_the_base_as_ancestor_is_refused(tmp_path: Path, repo: Repo) -> None:
    repo.git("checkout", "--quiet", "--orphan", "fresh")
    repo.commit("the same files, another history")
    (verdict,) = verify(tmp_path, repo.job(branch="fresh"))
    assert "does not descend" in refused_by(verdict, "ancestry")
    assert outcomes(verdict)["scope"] == "unverifiable"
    assert outcomes(verdict)["criterion"] == "unverifiable"


def test_the_base_itself_is_refused(tmp_path: Path, repo: Repo) -> None:
    (verdict,) = verify(tmp_path, repo.job(commit=repo.base))
    assert "the base itself" in refused_by(verdict, "ancestry")


def test_an_empty_commit_and_reverted_work_are_refused(tmp_path: Path, repo: Repo) -> None:
    repo.git("checkout", "--quiet", "-b", "empty", repo.base)
    empty = repo.commit("nothing")
    repo.git("checkout", "--quiet", "task")
    repo.git("revert", "--no-edit", "HEAD")
    first, second = verify(tmp_path, repo.job(branch="empty", commit=empty), repo.job())
    assert "no change" in refused_by(first, "ancestry")
    assert "no change" in refused_by(second, "ancestry")


def test_merging_the_work_of_others_does_not_count_as_work(tmp_path: Path, repo: Repo) -> None:
    repo.on_main({"src/auth/names.py": "x = 3\n"})
    repo.git("checkout", "--quiet", "-b", "idle", repo.base)
    repo.git("merge", "--quiet", "--no-ff", "--message", "Merge main", "main")
    (verdict,) = verify(tmp_path, repo.job(branch="idle"))
    assert "no change" in refused_by(verdict, "ancestry")


def test_a_missing_base_is_refused(tmp_path: Path, repo: Repo) -> None:
    (verdict,) = verify(tmp_path, repo.job(base_commit="1" * 40))
    assert "is not in the repository" in refused_by(verdict, "ancestry")


def test_a_base_on_no_branch_can_be_compared(tmp_path: Path, repo: Repo) -> None:
    repo.git("checkout", "--quiet", "--detach", repo.base)
    base = repo.commit("detached", {"src/auth/names.py": "x = 4\n"})
    repo.git("checkout", "--quiet", "task")
    (verdict,) = verify(tmp_path, repo.job(base_commit=base))
    assert "does not descend" in refused_by(verdict, "ancestry")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("v1", "is the id of a tag, not of a commit"),
        ("HEAD^{tree}", "is the id of a tree, not of a commit"),
        ("HEAD:README.md", "is the id of a blob, not of a commit"),
    ],
)
def test_an_id_that_is_not_of_a_commit_is_refused(
    tmp_path: Path, repo: Repo, name: str, words: str
) -> None:
    repo.git("tag", "--annotate", "--message", "release", "v1")
    (verdict,) = verify(tmp_path, repo.job(commit=repo.git("rev-parse", name)))
    assert words in refused_by(verdict, "commit")
    assert verdict.commit is None


def test_a_tag_that_a_branch_points_to_is_not_accepted_as_a_commit(
    tmp_path: Path, repo: Repo
) -> None:
    """Such a branch brings it into the mirror."""
    repo.git("tag", "--annotate", "--message", "release", "v1")
    tag = repo.git("rev-parse", "v1")
    (repo.path / ".git/refs/heads/tagged").write_text(f"{tag}\n")
    (verdict,) = verify(tmp_path, repo.job(commit=tag))
    assert "is the id of a tag" in refused_by(verdict, "commit")


def test_the_refusal_of_a_detached_commit_says_it_is_on_no_branch(
    tmp_path: Path, repo: Repo
) -> None:
    repo.git("checkout", "--quiet", "--detach")
    detached = repo.commit("detached", {"src/auth/names.py": "x = 2\n"})
    (verdict,) = verify(tmp_path, repo.job(commit=detached))
    assert "is on no branch" in refused_by(verdict, "commit")


def test_an_unknown_commit_id_is_refused(tmp_path: Path, repo: Repo) -> None:
    missing, revision, nothing, no_branch = verify(
        tmp_path,
        repo.job(commit="2" * 40),
        repo.job(commit="--all"),
        repo.job(commit=None, branch=None),
        repo.job(commit=None, branch="nowhere"),
    )
    assert "is not in the repository" in refused_by(missing, "commit")
    assert "is not a commit id" in refused_by(revision, "commit")
    assert "neither a commit nor a branch" in refused_by(nothing, "commit")
    assert "the branch nowhere is not in the repository" in refused_by(no_branch, "commit")


@pytest.mark.parametrize("branch", ["-x", "a..b", "x.lock", "a b", "refs/*", "@{-1}", ""])
def test_an_invalid_branch_name_is_refused(tmp_path: Path, repo: Repo, branch: str) -> None:
    (verdict,) = verify(tmp_path, repo.job(branch=branch))
    assert "is not a branch name" in refused_by(verdict, "branch")


def test_a_unique_prefix_is_accepted_but_not_that_of_another_commit(
    tmp_path: Path, repo: Repo
) -> None:
    repo.git("checkout", "--quiet", "-b", "other")
    elsewhere = repo.commit("elsewhere", {"src/auth/names.py": "x = 2\n"})
    repo.git("checkout", "--quiet", "task")
    good, short, other = verify(
        tmp_path,
        repo.job(commit=repo.head()[:10]),
        repo.job(commit=repo.head()[:6]),
        repo.job(commit=elsewhere[:10]),
    )
    assert good.accepted
    assert good.commit == repo.head()
    assert "is not a commit id" in refused_by(short, "commit")
    refused_by(other, "branch")


def test_an_ambiguous_prefix_is_refused(tmp_path: Path, repo: Repo) -> None:
    one, other, prefix = _twins()
    repo.commit("twins", {"src/auth/one": one, "src/auth/other": other})
    (verdict,) = verify(tmp_path, repo.job(commit=prefix))
    assert "is ambiguous" in refused_by(verdict, "commit")


def test_without_a_commit_the_tip_of_the_branch_is_verified(tmp_path: Path, repo: Repo) -> None:
    (verdict,) = verify(tmp_path, repo.job(commit=None))
    assert verdict.accepted
    assert verdict.commit == repo.head()
    assert verdict.tree == repo.git("rev-parse", "HEAD^{tree}")


def test_a_force_push_after_the_claim_is_refused(tmp_path: Path, repo: Repo) -> None:
    """The criterion moves the branch during the verification."""
    move = f"Command passes: git -C {repo.path} update-ref refs/heads/task {repo.base}"
    (verdict,) = verify(tmp_path, repo.job(criteria=[move], policy=UNCONTAINED))
    assert outcomes(verdict)["criterion"] == "passed"
    assert "moved after the claim" in refused_by(verdict, "branch")


def test_a_branch_may_move_on_after_the_claim(tmp_path: Path, repo: Repo) -> None:
    claimed = repo.head()
    later = repo.commit("later", {"README.md": "x\n"})
    repo.git("reset", "--quiet", "--hard", claimed)
    move = f"Command passes: git -C {repo.path} update-ref refs/heads/task {later}"
    (verdict,) = verify(tmp_path, repo.job(commit=claimed, criteria=[move], policy=UNCONTAINED))
    assert verdict.accepted
    assert verdict.commit == claimed


def test_with_the_ancestry_check_waived_the_other_checks_still_run(
    tmp_path: Path, repo: Repo
) -> None:
    repo.git("checkout", "--quiet", "--orphan", "fresh")
    repo.commit("the same files, another history")
    (verdict,) = verify(
        tmp_path, repo.job(branch="fresh", target=None, waivers=[waiver("ancestry", "*")])
    )
    assert outcomes(verdict)["ancestry"] == "waived"
    assert outcomes(verdict)["scope"] == "failed"


def _twins() -> tuple[str, str, str]:
    """Two texts whose git ids have the same first seven digits, and that prefix."""
    seen: dict[str, str] = {}
    for number in itertools.count():
        text = str(number)
        prefix = hashlib.sha1(f"blob {len(text)}\0{text}".encode()).hexdigest()[:7]
        if prefix in seen:
            return seen[prefix], text, prefix
        seen[prefix] = text
    raise AssertionError("unreachable")


def test_an_unreadable_repository_gives_no_verdict(tmp_path: Path, repo: Repo) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(UnknownRepo):
        verify(tmp_path, repo.job(repo=str(empty)))
    with pytest.raises(UnknownRepo):
        verify(tmp_path, repo.job(repo="ext::sh -c 'touch /tmp/x'"))
    shallow = tmp_path / "shallow"
    repo.git("clone", "--quiet", "--depth=1", f"file://{repo.path}", str(shallow))
    with pytest.raises(EvidenceUnavailable, match="shallow"):
        verify(tmp_path, repo.job(repo=str(shallow)))


@pytest.mark.requirement("OWN-12")
def test_rejected_work_is_refused_with_the_reason_until_it_changes(
    tmp_path: Path, repo: Repo
) -> None:
    commit = repo.head()
    rejected = RejectedWork(
        commit=commit,
        tree=repo.git("rev-parse", "HEAD^{tree}"),
        reason="keep the\nname",
        rejected_by="ada",
    )
    repo.git("commit", "--quiet", "--amend", "--message", "the same files")
    amended = repo.head()
    repo.git("branch", "old", commit)
    new = repo.commit("new", {"src/auth/login.py": "x = 2\n"})
    same, files, changed, waived, read = verify(
        tmp_path,
        repo.job(rejections=[rejected], commit=commit, branch="old"),
        repo.job(rejections=[rejected], commit=amended),
        repo.job(rejections=[rejected], commit=new),
        repo.job(rejections=[rejected], commit=amended, waivers=[waiver("review", "*")]),
        repo.job(rejections=[rejected], commit=amended, owned=[]),
    )
    assert refused_by(same, "review") == (
        f"the commit {commit[:12]} was rejected by ada: keep the name"
    )
    assert "claim a new commit" in same.violations[0].hint
    assert "shiftboss dispute" in same.violations[0].hint
    assert outcomes(same)["criterion"] == "unverifiable", "nothing was run for it"
    assert f"has the same files as {commit[:12]}, which was" in refused_by(files, "review")
    assert (changed.accepted, outcomes(changed)["review"]) == (True, "passed")
    assert (waived.accepted, outcomes(waived)["review"]) == (True, "waived")
    assert "review" not in outcomes(read), "a task that only reads always claims the same"
