"""Questions about a repository of the user that are answered together, or only once."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from shiftboss.errors import TreeUnavailable, UnknownRepo
from shiftboss.orchestrator.git.repository import GitRepo
from tests.repos import Repo

pytestmark = pytest.mark.requirement("HO-04")


def test_several_revisions_are_resolved_at_once(tmp_path: Path) -> None:
    repo = Repo(tmp_path / "repo")
    work = repo.commit("work", {"a.py": "a = 1\n"})
    repo.git("tag", "--annotate", "--message", "v1", "v1", repo.base)
    names = ["refs/heads/task", "v1", work[:9], "refs/heads/no where", "HEAD^{tree}", "main"]
    found = asyncio.run(GitRepo(repo.path / ".git").commits_of(*names))
    assert found == [work, repo.base, work, None, None, repo.base]
    assert asyncio.run(GitRepo(tmp_path).commits_of("main", "task")) == [None, None]


def test_git_is_asked_again_when_the_git_folder_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = Repo(tmp_path / "repo")
    first = asyncio.run(GitRepo.at(repo.path))
    with monkeypatch.context() as without_git:
        without_git.setenv("PATH", str(tmp_path))
        assert asyncio.run(GitRepo.at(repo.path)) == first
        repo.git("config", "core.bare", "false")
        with pytest.raises(TreeUnavailable, match="git cannot be run"):
            asyncio.run(GitRepo.at(repo.path))
    repo.git("init", "--quiet", "--separate-git-dir", str(tmp_path / "elsewhere"))
    assert asyncio.run(GitRepo.at(repo.path)).common == tmp_path / "elsewhere"
    (repo.path / ".git").unlink()
    with pytest.raises(UnknownRepo):
        asyncio.run(GitRepo.at(repo.path))
