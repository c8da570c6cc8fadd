"""Stale locks of a killed git: they undo no landing and do not block the next one."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import pytest

from shiftboss.errors import TreeUnavailable
from shiftboss.orchestrator.git.repository import GitRepo
from shiftboss.orchestrator.landing.work_landing import Landed, WorkLanding
from tests.e2e.worktrees.worktree_fixtures import Project

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("OWN-01")]

_PASSES = "Command passes: test -d src"


def _lock(project: Project, name: str, age: float) -> Path:
    lock = project.repo.path / ".git" / f"{name}.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    lock.touch()
    os.utime(lock, (time.time() - age, time.time() - age))
    return lock


async def test_stale_locks_on_private_refs_do_not_block_a_landing(
    project: Project, work_landing: WorkLanding
) -> None:
    commit = project.work("bd-1", {"src/auth/one.py": "x = 1\n"})
    project.repo.commit("moved", {"README.md": "# Moved\n"})
    ours = ("refs/shiftboss/landing/bd-1", "refs/heads/shiftboss/bd-1")
    locks = [_lock(project, name, 60) for name in ours]
    users = _lock(project, "refs/heads/mine", 60)
    work = project.accepted_work("bd-1", commit, _PASSES, branch="shiftboss/bd-1")
    assert await work_landing.land(work) == Landed(project.tip(), "merge")
    assert not any(lock.exists() for lock in locks)
    assert users.exists()
    assert "shiftboss/bd-1" not in project.repo.git("branch")
    assert project.refs("refs/shiftboss/landing") == {}


@pytest.mark.parametrize("name", ["refs/shiftboss/landing/bd-1", "packed-refs"])
async def test_work_lands_even_if_the_clean_up_fails(
    project: Project, work_landing: WorkLanding, name: str
) -> None:
    commit = project.work("bd-1", {"src/auth/one.py": "x = 1\n"})
    # Left by a process that was killed before its clean-up.
    project.repo.git("update-ref", "refs/shiftboss/landing/bd-1", commit)
    lock = _lock(project, name, 0)
    work = project.accepted_work("bd-1", commit, branch="shiftboss/bd-1")
    began = time.monotonic()
    assert await work_landing.land(work) == Landed(commit, "fast_forward")
    assert time.monotonic() - began < 15
    assert lock.exists()
    assert project.refs("refs/shiftboss/landing") == {"refs/shiftboss/landing/bd-1": commit}
    lock.unlink()
    # The next landing cleans up.
    two = project.work("bd-2", {"src/lib/two.py": "y = 1\n"}, commit)
    assert await work_landing.land(project.accepted_work("bd-2", two)) == Landed(
        two, "fast_forward"
    )
    assert project.refs("refs/shiftboss/landing") == {}


@pytest.mark.parametrize("name", ["refs/heads/main", "packed-refs"])
async def test_an_error_names_a_lock_that_persists(project: Project, name: str) -> None:
    lock = _lock(project, name, 60)
    commit = project.work("bd-1", {"src/auth/one.py": "x = 1\n"})
    repo = await GitRepo.at(project.repo.path)
    if name == "packed-refs":
        command = repo.text("dropping", "update-ref", "-d", "refs/heads/shiftboss/bd-1")
    else:
        command = repo.text("moving", "update-ref", "refs/heads/main", commit)
    began = time.monotonic()
    with pytest.raises(TreeUnavailable) as refused:
        await command
    assert time.monotonic() - began < 15
    assert f"rm {lock}" in refused.value.detail
    assert lock.exists()


async def test_a_locked_target_is_an_error(project: Project, work_landing: WorkLanding) -> None:
    project.repo.git("checkout", "--quiet", "--detach")
    lock = _lock(project, "refs/heads/main", 60)
    commit = project.work("bd-1", {"src/auth/one.py": "x = 1\n"})
    with pytest.raises(TreeUnavailable, match=f"rm {lock}"):
        await work_landing.land(project.accepted_work("bd-1", commit))
    assert project.tip() == project.repo.base


async def test_a_stale_lock_does_not_prevent_salvage(project: Project) -> None:
    worktree = await project.create()
    (worktree.path / "draft.txt").write_text("half of it\n")
    ref = "refs/shiftboss/salvage/bd-1/1"
    _lock(project, ref, 60)
    assert await project.worktrees.remove(worktree) == ref
    assert project.text(ref, "draft.txt") == "half of it"
    await project.worktrees.close()


async def test_checkouts_are_listed_while_a_worktree_is_removed(project: Project) -> None:
    """`git worktree list` would fail."""
    worktree = await project.create()
    repo = await GitRepo.at(project.repo.path)
    elsewhere = project.folder / "elsewhere"
    is_over = asyncio.Event()

    def move_back_and_forth() -> None:
        while not is_over.is_set():
            worktree.admin.rename(elsewhere)
            elsewhere.rename(worktree.admin)

    moving = asyncio.create_task(asyncio.to_thread(move_back_and_forth))
    try:
        for _ in range(60):
            checkouts = await repo.checkouts_by_branch()
            assert checkouts["main"].folder == project.repo.path
    finally:
        is_over.set()
        await moving
    assert set(await repo.checkouts_by_branch()) == {"main", "shiftboss/bd-1"}
    await project.worktrees.close()
