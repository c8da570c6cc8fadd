"""Refs that only Shiftboss writes, and the stale locks that killed git processes leave on them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Sequence
from typing import Final

from shiftboss.errors import ShiftbossError
from shiftboss.orchestrator.git.repository import GitRepo
from shiftboss.rules.paths.branch_names import ref_part

log = logging.getLogger(__name__)

LANDING_REFS: Final = "refs/shiftboss/landing/"
SQUASHED_REFS: Final = "refs/shiftboss/squashed/"
# Git holds the lock of a ref for some milliseconds.
STALE_SECONDS: Final = 5.0
_PRIVATE: Final = ("refs/shiftboss/", "refs/heads/shiftboss/")


def landing_ref(bead_id: str) -> str:
    """The ref that keeps a merge alive while it is tested."""
    return f"{LANDING_REFS}{ref_part(bead_id)}"


def squashed_ref(swarm_id: str, bead_id: str) -> str:
    """The ref that keeps the verified commits of squashed work, which its receipt names."""
    return f"{SQUASHED_REFS}{ref_part(swarm_id or 'run')}/{ref_part(bead_id)}"


async def break_stale_locks(repo: GitRepo, refs: Sequence[str]) -> None:
    """Remove old locks of private refs. Locks of other refs are left alone. The caller must hold
    the lock of the repository."""
    private = [ref for ref in refs if ref.startswith(_PRIVATE)]
    await asyncio.to_thread(_remove_stale_locks, repo, private)


async def delete_landing_refs(repo: GitRepo) -> None:
    """Delete the refs of all landings, also of killed ones: the caller holds the landing lock, so
    no other landing runs. Errors are logged, not raised: the work has landed, and the next landing
    deletes what is left."""
    try:
        output = await repo.text("landings", "for-each-ref", "--format=%(refname)", LANDING_REFS)
        await break_stale_locks(repo, output.split())
        for ref in output.split():
            await repo.delete_private_ref(ref)
    except ShiftbossError as error:
        log.warning("cannot delete the landing refs in %s: %s", repo.common, error.detail)


def _remove_stale_locks(repo: GitRepo, refs: Sequence[str]) -> None:
    for ref in refs:
        lock = repo.common / f"{ref}.lock"
        with contextlib.suppress(OSError):
            if time.time() - lock.stat().st_mtime > STALE_SECONDS:
                lock.unlink()


async def delete_landed_branch(
    repo: GitRepo, branch: str, target: str, squashed: str | None = None
) -> bool:
    """Delete the branch of a task if the target contains all of it, or has it as a squash of the
    commit `squashed`. Returns whether it is gone. A branch that is checked out stays."""
    if not branch or not target or branch == target:
        return False
    branch_tip, target_tip = await repo.commits_of(f"refs/heads/{branch}", f"refs/heads/{target}")
    if (
        branch_tip is None
        or target_tip is None
        or not (branch_tip == squashed or await repo.is_ancestor(branch_tip, target_tip))
    ):
        return False
    if branch in await repo.checkouts_by_branch():
        return False
    await break_stale_locks(repo, [f"refs/heads/{branch}"])
    return await repo.delete_ref(f"refs/heads/{branch}", branch_tip)
