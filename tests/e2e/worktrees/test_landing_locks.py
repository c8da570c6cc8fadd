"""Locks that a killed git has left: work that has landed has landed, and the next can land."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import pytest

from shiftboss.errors import TreeUnavailable
from shiftboss.orchestrator.git.repository import GitRepo
from shiftboss.orchestrator.landing.landing import Landed, Landing
from tests.e2e.worktrees.worktree_fixtures import Ground

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("OWN-01")]

_PASSES = "Command passes: test -d src"


def _lock(ground: Ground, name: str, age: float) -> Path:
    lock = ground.repo.path / ".git" / f"{name}.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    lock.touch()
    os.utime(lock, (time.time() - age, time.time() - age))
    return lock


async def test_old_locks_of_our_own_refs_keep_nothing_off(ground: Ground, landing: Landing) -> None:
    commit = ground.work("bd-1", {"src/auth/one.py": "x = 1\n"})
    ground.repo.commit("moved", {"README.md": "# Moved\n"})
    ours = ("refs/shiftboss/landing/bd-1", "refs/heads/shiftboss/bd-1")
    locks = [_lock(ground, name, 60) for name in ours]
    users = _lock(ground, "refs/heads/mine", 60)
    wanted = ground.landable("bd-1", commit, _PASSES, branch="shiftboss/bd-1")
    assert await landing.land(wanted) == Landed(ground.tip(), "merge")
    assert not any(lock.exists() for lock in locks)
    assert users.exists()
    assert "shiftboss/bd-1" not in ground.repo.git("branch")
    assert ground.refs("refs/shiftboss/landing") == {}


@pytest.mark.parametrize("name", ["refs/shiftboss/landing/bd-1", "packed-refs"])
async def test_what_cannot_be_tidied_has_landed(
    ground: Ground, landing: Landing, name: str
) -> None:
    commit = ground.work("bd-1", {"src/auth/one.py": "x = 1\n"})
    # As of a process that was killed before it had tidied.
    ground.repo.git("update-ref", "refs/shiftboss/landing/bd-1", commit)
    lock = _lock(ground, name, 0)
    wanted = ground.landable("bd-1", commit, branch="shiftboss/bd-1")
    began = time.monotonic()
    assert await landing.land(wanted) == Landed(commit, "fast_forward")
    assert time.monotonic() - began < 15
    assert lock.exists()
    assert ground.refs("refs/shiftboss/landing") == {"refs/shiftboss/landing/bd-1": commit}
    lock.unlink()
    # Whatever lands next tidies.
    two = ground.work("bd-2", {"src/lib/two.py": "y = 1\n"}, commit)
    assert await landing.land(ground.landable("bd-2", two)) == Landed(two, "fast_forward")
    assert ground.refs("refs/shiftboss/landing") == {}


@pytest.mark.parametrize("name", ["refs/heads/main", "packed-refs"])
async def test_a_lock_that_stays_is_named_soon(ground: Ground, name: str) -> None:
    lock = _lock(ground, name, 60)
    commit = ground.work("bd-1", {"src/auth/one.py": "x = 1\n"})
    repo = await GitRepo.at(ground.repo.path)
    if name == "packed-refs":
        doing = repo.text("dropping", "update-ref", "-d", "refs/heads/shiftboss/bd-1")
    else:
        doing = repo.text("moving", "update-ref", "refs/heads/main", commit)
    began = time.monotonic()
    with pytest.raises(TreeUnavailable) as refused:
        await doing
    assert time.monotonic() - began < 15
    assert f"rm {lock}" in refused.value.detail
    assert lock.exists()


async def test_a_target_that_is_locked_is_told_so(ground: Ground, landing: Landing) -> None:
    ground.repo.git("checkout", "--quiet", "--detach")
    lock = _lock(ground, "refs/heads/main", 60)
    commit = ground.work("bd-1", {"src/auth/one.py": "x = 1\n"})
    with pytest.raises(TreeUnavailable, match=f"rm {lock}"):
        await landing.land(ground.landable("bd-1", commit))
    assert ground.tip() == ground.repo.base


async def test_an_old_lock_keeps_nothing_from_being_salvaged(ground: Ground) -> None:
    tree = await ground.make()
    (tree.path / "draft.txt").write_text("half of it\n")
    ref = "refs/shiftboss/salvage/bd-1/1"
    _lock(ground, ref, 60)
    assert await ground.trees.remove(tree) == ref
    assert ground.text(ref, "draft.txt") == "half of it"
    await ground.trees.close()


async def test_a_tree_that_is_removed_meanwhile_is_no_trouble(ground: Ground) -> None:
    """Git's own list of the trees ends with an error then."""
    tree = await ground.make()
    repo = await GitRepo.at(ground.repo.path)
    aside = ground.folder / "aside"
    is_over = asyncio.Event()

    def come_and_go() -> None:
        while not is_over.is_set():
            tree.admin.rename(aside)
            aside.rename(tree.admin)

    coming = asyncio.create_task(asyncio.to_thread(come_and_go))
    try:
        for _ in range(60):
            found = await repo.checked_out()
            assert found["main"].folder == ground.repo.path
    finally:
        is_over.set()
        await coming
    assert set(await repo.checked_out()) == {"main", "shiftboss/bd-1"}
    await ground.trees.close()
