"""Nothing in a repository runs code in the verifier or changes what it sees."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from shiftboss.errors import EvidenceUnavailable
from shiftboss.evidence.mirror.repository import Repository
from tests.repos import Repo, outcomes, refused_paths
from tests.verifying import verify

pytestmark = pytest.mark.requirement("HO-04")


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return Repo(tmp_path / "repo")


@pytest.fixture
def trap(tmp_path: Path) -> Path:
    """A program that leaves a mark when it is run."""
    program = tmp_path / "trap"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/sprung\ncat\n")
    program.chmod(0o755)
    return program


def _set_traps(repo: Repo, trap: Path) -> None:
    """Every setting of a repository that names a program which reading it could run."""
    settings = {
        "core.fsmonitor": trap,
        "core.hooksPath": trap.parent / "hooks",
        "core.sshCommand": trap,
        "core.pager": trap,
        "core.editor": trap,
        "core.alternateRefsCommand": trap,
        "core.gitProxy": trap,
        "core.attributesFile": trap.parent / "attributes",
        "uploadpack.packObjectsHook": trap,
        "filter.evil.clean": trap,
        "filter.evil.smudge": trap,
        "filter.evil.process": trap,
        "filter.evil.required": "true",
        "diff.external": trap,
        "diff.evil.textconv": trap,
        "diff.evil.command": trap,
        "merge.evil.driver": f"{trap} %A",
        "gpg.program": trap,
        "credential.helper": trap,
        "log.showSignature": "true",
        "remote.origin.url": f"ext::{trap}",
        "remote.origin.uploadpack": trap,
        "remote.origin.promisor": "true",
        "protocol.ext.allow": "always",
        "alias.fetch": f"!{trap}",
        "alias.diff-tree": f"!{trap}",
        "include.path": trap.parent / "more.config",
    }
    for name, value in settings.items():
        repo.git("config", name, str(value))
    hooks = [repo.path / ".git/hooks", trap.parent / "hooks"]
    for folder in hooks:
        folder.mkdir(exist_ok=True)
        for hook in ("post-checkout", "post-index-change", "reference-transaction", "pre-auto-gc"):
            (folder / hook).symlink_to(trap)
    (trap.parent / "attributes").write_text("* filter=evil diff=evil merge=evil\n")
    (repo.path / ".git/info").mkdir(exist_ok=True)
    (repo.path / ".git/info/attributes").write_text("* filter=evil diff=evil -text\n")


def test_the_repositorys_settings_hooks_and_filters_are_not_executed(
    tmp_path: Path, repo: Repo, trap: Path
) -> None:
    repo.commit(
        "work",
        {"src/auth/login.py": "x = 1\n", "src/auth/.gitattributes": "* filter=evil diff=evil\n"},
    )
    _set_traps(repo, trap)
    criteria = ["Command passes: git diff --check HEAD~1", "Command passes: git status --porcelain"]
    (verdict,) = verify(
        tmp_path, repo.job(owned=["src/auth/", "src/auth/.gitattributes"], criteria=criteria)
    )
    assert verdict.accepted, verdict.violations
    head = asyncio.run(Repository().head(str(repo.path)))
    assert asyncio.run(Repository().read(str(repo.path), head.commit, ["README.md"]))
    assert asyncio.run(Repository().files(str(repo.path), head.commit))
    assert not (tmp_path / "sprung").exists()


def test_the_traps_would_work_on_the_workers_own_git(
    tmp_path: Path, repo: Repo, trap: Path
) -> None:
    """Proves that the test above is meaningful: the worker's own git does run them."""
    repo.commit("work", {"src/auth/login.py": "x = 1\n"})
    _set_traps(repo, trap)
    repo.write({"src/auth/login.py": "x = 2\n"})
    repo.git("config", "--unset", "core.fsmonitor")
    repo.git("config", "--unset", "filter.evil.process")
    repo.git("add", "--all")
    assert (tmp_path / "sprung").exists()


def test_a_replace_ref_does_not_change_the_diff(tmp_path: Path, repo: Repo) -> None:
    honest = repo.commit("honest", {"src/auth/login.py": "x = 1\n"})
    repo.git("reset", "--quiet", "--hard", repo.base)
    evil = repo.commit("evil", {"src/auth/login.py": "x = 1\n", "README.md": "x\n"})
    repo.git("replace", evil, honest)
    assert repo.git("diff", "--name-only", repo.base, evil) == "src/auth/login.py"
    (verdict,) = verify(tmp_path, repo.job(commit=evil))
    assert refused_paths(verdict) == ["README.md"]


def test_a_replaced_base_does_not_change_the_diff(tmp_path: Path, repo: Repo) -> None:
    evil = repo.commit("evil", {"src/auth/login.py": "x = 1\n", "README.md": "x\n"})
    repo.git("checkout", "--quiet", "--detach", repo.base)
    pretended = repo.commit("pretended", {"README.md": "x\n"})
    repo.git("checkout", "--quiet", "task")
    repo.git("replace", repo.base, pretended)
    (verdict,) = verify(tmp_path, repo.job(commit=evil))
    assert refused_paths(verdict) == ["README.md"]


def test_a_graft_does_not_create_an_ancestor(tmp_path: Path, repo: Repo) -> None:
    repo.git("checkout", "--quiet", "--orphan", "fresh")
    orphan = repo.commit("fresh", {"src/auth/login.py": "x = 1\n"})
    (repo.path / ".git/info").mkdir(exist_ok=True)
    (repo.path / ".git/info/grafts").write_text(f"{orphan} {repo.base}\n")
    (verdict,) = verify(tmp_path, repo.job(branch="fresh"))
    assert outcomes(verdict)["ancestry"] == "failed"


def test_attributes_do_not_hide_a_change(tmp_path: Path, repo: Repo) -> None:
    (repo.path / ".git/info").mkdir(exist_ok=True)
    (repo.path / ".git/info/attributes").write_text("* -diff\n")
    repo.git("config", "diff.ignoreSubmodules", "all")
    repo.git("config", "core.quotePath", "false")
    repo.commit("work", {"src/auth/login.py": "a = 1\nb = 2\n", "README.md": "x\n"})
    (verdict,) = verify(tmp_path, repo.job())
    assert refused_paths(verdict) == ["README.md"]
    assert (verdict.lines_added, verdict.lines_deleted) == (3, 3)


def test_objects_that_do_not_match_their_hashes_are_rejected(tmp_path: Path, repo: Repo) -> None:
    """A worker can write anything into the files of its objects."""
    honest = repo.git("hash-object", "-w", "--stdin", stdin=b"honest\n")
    lying = repo.git("hash-object", "-w", "--stdin", stdin=b"lying\n")
    repo.commit("work", {"src/auth/login.py": "honest\n"})
    objects = repo.path / ".git/objects"
    honest_file = objects / honest[:2] / honest[2:]
    honest_file.chmod(0o644)
    honest_file.write_bytes((objects / lying[:2] / lying[2:]).read_bytes())
    with pytest.raises(EvidenceUnavailable, match="cannot be fetched"):
        verify(tmp_path, repo.job())


def test_changes_only_in_the_work_tree_or_index_are_ignored(tmp_path: Path, repo: Repo) -> None:
    repo.commit("work", {"src/auth/login.py": "x = 1\n"})
    repo.write({"src/auth/answer.txt": "42\n", "README.md": "staged\n"})
    repo.git("add", "README.md")
    criteria = ["Command passes: test -e src/auth/answer.txt"]
    (dirty,) = verify(tmp_path, repo.job(criteria=criteria))
    assert outcomes(dirty)["scope"] == "passed"
    assert outcomes(dirty)["criterion"] == "failed"


def test_changes_in_files_that_git_is_told_to_ignore_are_found(tmp_path: Path, repo: Repo) -> None:
    """assume-unchanged, skip-worktree and ignore rules affect only the index."""
    repo.git("update-index", "--assume-unchanged", "README.md")
    repo.write({".git/info/exclude": "*.cfg\n"})
    repo.write({"README.md": "x\n", "hidden.cfg": "x\n"})
    repo.git("add", "--force", "hidden.cfg")
    repo.git("update-index", "--no-assume-unchanged", "README.md")
    repo.commit("work")
    repo.git("update-index", "--skip-worktree", "README.md")
    (verdict,) = verify(tmp_path, repo.job())
    assert refused_paths(verdict) == ["README.md", "hidden.cfg"]
