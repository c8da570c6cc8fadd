"""Honest work is not refused."""

from __future__ import annotations

import copy
import shlex
import unicodedata
from pathlib import Path

import pytest

from shiftboss.errors import EvidenceUnavailable
from tests.repos import Repo, outcomes, refused_paths
from tests.verifying import verify

pytestmark = pytest.mark.requirement("HO-04")


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return Repo(tmp_path / "repo")


def test_work_within_the_contract_is_accepted_with_a_summary(tmp_path: Path, repo: Repo) -> None:
    repo.git("mv", "src/auth/names.py", "src/auth/people.py")
    (repo.path / "src/auth/login.py").chmod(0o755)
    repo.commit("work", {"src/auth/deep/new/file.py": "a = 1\nb = 2\n", "src/auth/.hidden": "x\n"})
    job = repo.job(files_touched=["src/auth/people.py"])
    (verdict,) = verify(tmp_path, job)
    assert verdict.accepted, verdict.violations
    assert verdict.commit == repo.head()
    assert [check.check for check in verdict.checks] == [
        *("commit", "ancestry", "branch", "scope", "tests_kept", "criterion")
    ]
    changes = {one.path: (one.status, one.old_path, one.mode) for one in verdict.changes}
    assert changes == {
        "src/auth/.hidden": ("A", None, None),
        "src/auth/deep/new/file.py": ("A", None, None),
        "src/auth/login.py": ("T", None, "100755"),
        "src/auth/people.py": ("R", "src/auth/names.py", None),
    }
    assert (verdict.files_changed, verdict.lines_added, verdict.lines_deleted) == (4, 3, 0)


def test_generated_files_are_allowed_where_the_policy_says_so(tmp_path: Path, repo: Repo) -> None:
    files = {"src/auth/login.py": "x = 1\n", "package-lock.json": "{}\n", "gen/a/b.py": "x\n"}
    repo.commit("work", files)
    allowed, refused = verify(
        tmp_path, repo.job(policy={"generated": ["package-lock.json", "gen/**"]}), repo.job()
    )
    assert allowed.accepted, allowed.violations
    assert {violation.path for violation in refused.violations} == {
        "package-lock.json",
        "gen/a/b.py",
    }


def test_a_generated_glob_does_not_cover_tool_configuration(tmp_path: Path, repo: Repo) -> None:
    repo.commit("work", {"gen/conftest.py": "x = 1\n", "src/lib/jwt.py": "x\n"})
    by_glob, by_name = verify(
        tmp_path,
        repo.job(policy={"generated": ["**"]}),
        repo.job(policy={"generated": ["gen/conftest.py", "src/lib/jwt.py"]}),
    )
    assert {violation.path for violation in by_glob.violations} == {
        "gen/conftest.py",
        "src/lib/jwt.py",
    }
    assert by_name.accepted, by_name.violations


def test_tool_configuration_may_change_when_it_is_named(tmp_path: Path, repo: Repo) -> None:
    repo.commit("work", {"tests/new/conftest.py": "x = 1\n"})
    (verdict,) = verify(tmp_path, repo.job(owned=["tests/new/", "tests/new/conftest.py"]))
    assert verdict.accepted, verdict.violations


@pytest.mark.parametrize(
    "name",
    [
        "src/auth/with spaces/and 'quotes\".py",
        "src/auth/" + unicodedata.normalize("NFC", "käse.py"),
        "src/auth/" + unicodedata.normalize("NFD", "käse.py"),
        "src/auth/[id]/page.tsx",
        "src/auth/new\nline\ttab.txt",
        "src/auth/-rf",
        "src/auth/:(top)x",
        "src/auth/日本語/🙂.md",
        "src/auth/back\\slash.py",
    ],
)
def test_unusual_file_names_are_accepted(tmp_path: Path, repo: Repo, name: str) -> None:
    repo.commit("work", {name: "x\n"})
    touched = [name]
    by_folder, by_name = verify(
        tmp_path, repo.job(files_touched=touched), repo.job(owned=[name], files_touched=touched)
    )
    assert by_folder.accepted, by_folder.violations
    assert by_name.accepted, by_name.violations
    assert [one.path for one in by_name.changes] == [name]


def test_a_large_change_is_checked_completely(tmp_path: Path, repo: Repo) -> None:
    repo.commit("work", {f"src/auth/d{n % 40}/f{n}.py": f"x = {n}\n" for n in range(2000)})
    (verdict,) = verify(tmp_path, repo.job())
    assert verdict.accepted, verdict.violations
    assert verdict.files_changed == 2000
    assert len(verdict.changes) == 1000


def test_merging_the_target_with_the_work_of_others_is_accepted(tmp_path: Path, repo: Repo) -> None:
    repo.commit("work", {"src/auth/login.py": "x = 1\n"})
    landed = repo.on_main({"README.md": "# Landed\n", "src/lib/more.py": "x = 2\n"})
    repo.git("merge", "--quiet", "--message", "Merge main", "main")
    repo.commit("more", {"src/auth/more.py": "x = 1\n"})
    later = repo.on_main({"docs/later.md": "after the merge\n"})
    with_target, without = verify(tmp_path, repo.job(), repo.job(target=None))
    assert with_target.accepted, with_target.violations
    assert with_target.merged_from_target == [landed]
    assert with_target.target_commit == later
    assert {one.path for one in with_target.changes} == {"src/auth/login.py", "src/auth/more.py"}
    assert {violation.path for violation in without.violations} == {"README.md", "src/lib/more.py"}
    assert all("--target main" in violation.hint for violation in without.violations)


def test_a_conflict_in_an_owned_file_may_be_resolved(tmp_path: Path, repo: Repo) -> None:
    repo.commit("work", {"src/auth/login.py": "x = 1\n"})
    repo.on_main({"src/auth/login.py": "x = 2\n", "README.md": "# Landed\n"})
    repo.git("merge", "--quiet", "--strategy-option=ours", "--no-commit", "main")
    repo.commit("Merge main", {"src/auth/login.py": "x = 3\n"})
    (verdict,) = verify(tmp_path, repo.job())
    assert verdict.accepted, verdict.violations


def test_a_rebased_branch_is_accepted(tmp_path: Path, repo: Repo) -> None:
    repo.commit("work", {"src/auth/login.py": "x = 1\n"})
    repo.on_main({"README.md": "# Landed\n"})
    repo.git("rebase", "--quiet", "main")
    (verdict,) = verify(tmp_path, repo.job())
    assert verdict.accepted, verdict.violations


def test_a_linked_worktree_can_be_the_repository(tmp_path: Path, repo: Repo) -> None:
    tree = tmp_path / "tree"
    repo.git("worktree", "add", "--quiet", "-b", "linked", str(tree), repo.base)
    (tree / "src/auth/login.py").write_text("x = 1\n")
    repo.git("-C", str(tree), "commit", "--quiet", "--all", "--message", "work")
    commit = repo.git("-C", str(tree), "rev-parse", "HEAD")
    by_tree, by_repo = verify(
        tmp_path,
        repo.job(repo=str(tree), branch="linked", commit=commit),
        repo.job(branch="linked", commit=None),
    )
    assert by_tree.accepted, by_tree.violations
    assert by_repo.commit == commit
    assert len(list((tmp_path / "verifier" / "mirrors").iterdir())) == 1


def test_a_link_within_the_tree_is_accepted(tmp_path: Path, repo: Repo) -> None:
    (repo.path / "src/auth/link.py").symlink_to("../lib/jwt.py")
    repo.commit("work")
    (verdict,) = verify(tmp_path, repo.job())
    assert verdict.accepted, verdict.violations


def test_concurrent_claims_do_not_disturb_each_other(tmp_path: Path, repo: Repo) -> None:
    jobs = []
    for number in range(6):
        repo.git("checkout", "--quiet", "-b", f"task-{number}", repo.base)
        outside = {"README.md": "x\n"} if number % 2 else {}
        repo.commit("work", {"src/auth/login.py": f"x = {number}\n"} | outside)
        criteria = [f"Command passes: grep -qx 'x = {number}' src/auth/login.py"]
        jobs.append(repo.job(branch=f"task-{number}", criteria=criteria))
    verdicts = verify(tmp_path, *jobs)
    assert [one.accepted for one in verdicts] == [True, False] * 3
    assert [outcomes(one)["criterion"] for one in verdicts] == ["passed", "unverifiable"] * 3


def partial_clone(repo: Repo, folder: Path) -> Repo:
    """A clone without old contents, with work on `task`. Its `main` has two commits."""
    repo.git("config", "uploadpack.allowFilter", "true")
    repo.git("checkout", "--quiet", "main")
    repo.commit("newer", {"src/auth/login.py": "def login():\n    return 0\n"})
    repo.git(
        *("clone", "--quiet", "--filter=blob:none", "--branch=main"),
        *(f"file://{repo.path}", str(folder)),
    )
    clone = copy.copy(repo)
    clone.path = folder
    clone.base = clone.head()
    clone.git("checkout", "--quiet", "-b", "task")
    clone.commit("work", {"src/auth/login.py": "def login():\n    return 1\n"})
    missing = clone.git("rev-list", "--objects", "--missing=print", "--all")
    assert "?" in missing, "the clone is partial"
    return clone


def test_a_partial_clone_is_verified_with_the_objects_of_its_promisor(
    tmp_path: Path, repo: Repo
) -> None:
    clone = partial_clone(repo, tmp_path / "clone")
    command = "import sys; sys.path.insert(0, 'src/auth'); import login; assert login.login() == 1"
    criteria = [f"Command passes: python3 -c {shlex.quote(command)}"]
    (verdict,) = verify(tmp_path, clone.job(criteria=criteria))
    assert verdict.accepted, verdict.violations
    clone.commit("more", {"README.md": "# Mine\n"})
    (verdict,) = verify(tmp_path, clone.job())
    assert refused_paths(verdict) == ["README.md"]


def test_a_partial_clone_of_another_machine_is_refused_with_a_command_that_helps(
    tmp_path: Path, repo: Repo
) -> None:
    clone = partial_clone(repo, tmp_path / "a clone")
    marker = tmp_path / "ran"
    clone.git("config", "core.sshCommand", f"touch {marker}; false")
    clone.git("config", "remote.origin.uploadpack", f"touch {marker}; git-upload-pack")
    clone.git("remote", "set-url", "origin", "ssh://forge.invalid/shop.git")
    with pytest.raises(EvidenceUnavailable, match=r"that lacks objects: (fatal|error)") as no:
        verify(tmp_path, clone.job())
    assert not marker.exists(), "no setting of the clone is used"
    clone.git("remote", "set-url", "origin", f"file://{repo.path}")
    clone.git("config", "--unset", "remote.origin.uploadpack")
    program, *arguments = shlex.split(str(no.value.hint).removeprefix("fetch everything: "))
    assert program == "git"
    clone.git(*arguments)
    clone.git("remote", "set-url", "origin", "ssh://forge.invalid/shop.git")
    (verdict,) = verify(tmp_path, clone.job())
    assert verdict.accepted, verdict.violations
