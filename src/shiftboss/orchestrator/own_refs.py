"""Refs that are ours alone, and the locks that a killed git of ours has left on them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Sequence
from typing import Final

from shiftboss.errors import ShiftbossError
from shiftboss.orchestrator.repo import GitRepo
from shiftboss.rules.paths.branch_names import ref_part

log = logging.getLogger(__name__)

LANDING_REFS: Final = "refs/shiftboss/landing/"
# Git holds a lock of a ref for some milliseconds.
STALE_SECONDS: Final = 5.0
_OURS: Final = ("refs/shiftboss/", "refs/heads/shiftboss/")


def landing_ref(bead_id: str) -> str:
    """Holds a merge while it is tested."""
    return f"{LANDING_REFS}{ref_part(bead_id)}"


async def break_stale_locks(repo: GitRepo, refs: Sequence[str]) -> None:
    """For whoever has the turn. Locks of other refs are left alone."""
    await asyncio.to_thread(_break, repo, [ref for ref in refs if ref.startswith(_OURS)])


async def forget_landings(repo: GitRepo) -> None:
    """What landings have held, also those that were killed: whoever has the turn of landings is
    alone. What has landed has landed, so nothing is raised; the next landing tries again."""
    try:
        held = await repo.text("landings", "for-each-ref", "--format=%(refname)", LANDING_REFS)
        await break_stale_locks(repo, held.split())
        for ref in held.split():
            await repo.forget(ref)
    except ShiftbossError as error:
        log.warning("refs of landings stay in %s: %s", repo.common, error.detail)


def _break(repo: GitRepo, refs: Sequence[str]) -> None:
    for ref in refs:
        lock = repo.common / f"{ref}.lock"
        with contextlib.suppress(OSError):
            if time.time() - lock.stat().st_mtime > STALE_SECONDS:
                lock.unlink()
