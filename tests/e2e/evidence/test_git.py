"""Reading repositories: what handoffs need from them, within limits."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import psutil
import pytest

from shiftboss.errors import EvidenceUnavailable, UnknownRepo
from shiftboss.evidence.mirror.repository import Repository
from shiftboss.system.git import git
from tests.repos import Repo
from tests.verifying import verify

pytestmark = pytest.mark.requirement("HO-04")


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return Repo(tmp_path / "repo")


def test_head_is_found_from_anywhere_in_a_repository(tmp_path: Path, repo: Repo) -> None:
    head = asyncio.run(Repository().head(str(repo.path / "src")))
    assert head == (repo.base, "task", str(repo.path))
    repo.git("checkout", "--quiet", "--detach")
    assert asyncio.run(Repository().head(str(repo.path))).branch is None
    bare = tmp_path / "bare.git"
    repo.git("clone", "--quiet", "--bare", str(repo.path), str(bare))
    assert asyncio.run(Repository().head(str(bare))).commit == repo.base


@pytest.mark.parametrize("case", ["branch", "detached", "bare", "line break", "another ref"])
def test_one_question_has_the_answers_of_several(tmp_path: Path, repo: Repo, case: str) -> None:
    path = repo.path / "src"
    if case == "detached":
        repo.git("checkout", "--quiet", "--detach")
    elif case == "another ref":
        repo.git("update-ref", "refs/else/where", repo.base)
        repo.git("symbolic-ref", "HEAD", "refs/else/where")
    elif case == "bare":
        path = tmp_path / "bare.git"
        repo.git("clone", "--quiet", "--bare", str(repo.path), str(path))
    elif case == "line break":
        path = tmp_path / "a\nb"
        repo.git("worktree", "add", "--quiet", "-b", "other", str(path))

    async def ask() -> None:
        one, folder = Repository(), str(path)
        apart = (await one.head(folder), await one.identity(folder), False)
        assert await one.facts(folder) == apart

    asyncio.run(ask())


def test_revisions_are_resolved_to_commits(repo: Repo) -> None:
    repo.git("tag", "--annotate", "--message", "v1", "v1")
    names = ("HEAD", "task", repo.base[:8], "v1")
    repository = Repository()
    found = [asyncio.run(repository.commit_of(str(repo.path), one)) for one in names]
    assert found == [repo.base] * 4
    for name in ("nowhere", "HEAD:README.md", "--all", "-x", ""):
        assert asyncio.run(repository.commit_of(str(repo.path), name)) is None


def test_files_are_listed_and_read_as_they_were_committed(repo: Repo) -> None:
    commit = repo.commit(
        "more", {"a name/ü\nx.py": "x = 1\n", "large.txt": "x" * (1024 * 1024 + 1)}
    )
    repo.write({"README.md": "not committed"})
    repository = Repository()
    files = asyncio.run(repository.files(str(repo.path), commit))
    assert set(files) >= {"a name/ü\nx.py", "README.md", "large.txt"}
    names = ["README.md", "large.txt", "missing", "src", "src/auth/names.py"]
    read = asyncio.run(repository.read(str(repo.path), commit, names))
    assert read == {"README.md": b"# Sums\n", "src/auth/names.py": b"NAMES = []\n"}


@pytest.mark.parametrize("path", ["relative", "/nowhere/at/all", "/dev/null", "/proc"])
def test_a_folder_that_is_not_a_repository_is_reported(path: str) -> None:
    with pytest.raises(UnknownRepo) as refused:
        asyncio.run(Repository().head(path))
    assert refused.value.field == "repo"


def test_a_repository_without_a_commit_is_refused(tmp_path: Path, repo: Repo) -> None:
    repo.git("init", "--quiet", str(tmp_path / "empty"))
    with pytest.raises(UnknownRepo, match="no commit"):
        asyncio.run(Repository().head(str(tmp_path / "empty")))


def test_a_git_process_that_hangs_is_killed(tmp_path: Path, repo: Repo) -> None:
    os.mkfifo(repo.path / "pipe")
    started_at = time.monotonic()
    with pytest.raises(EvidenceUnavailable, match="did not end"):
        asyncio.run(git(["hash-object", "pipe"], repo.path, seconds=0.3))
    assert time.monotonic() - started_at < 20
    assert not [one for one in psutil.Process().children(recursive=True) if one.name() == "git"]


def test_a_tree_bomb_is_refused(tmp_path: Path, repo: Repo) -> None:
    blob = repo.git("hash-object", "-w", "--stdin", stdin=b"x")
    entries = "".join(f"100644 blob {blob}\tf{n:02}\n" for n in range(40))
    for _ in range(6):
        tree = repo.git("mktree", stdin=entries.encode())
        entries = "".join(f"040000 tree {tree}\td{n:02}\n" for n in range(40))
    bomb = repo.git("commit-tree", "-p", repo.base, "-m", "bomb", tree)
    repo.git("update-ref", "refs/heads/task", bomb)
    with pytest.raises(EvidenceUnavailable, match="printed more than"):
        verify(tmp_path, repo.job(commit=bomb, owned=["**"]))
