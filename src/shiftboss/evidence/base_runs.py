"""How many tests ran at the base: fewer must not pass at the claimed commit.

There are more ways to switch a test off than can be found by reading. Counting finds them all.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pydantic import BaseModel

from shiftboss.evidence.mirror import Mirror
from shiftboss.evidence.prepared import prepared
from shiftboss.protocol.verdicts import VerificationJob
from shiftboss.rules.claims.criteria import counted
from shiftboss.system.background_delete import Disposal

KEPT_MAX: Final = 1000


class _Kept(BaseModel):
    ran: int | None


class BaseRuns:
    """Counts are kept in a folder: a base has many claims."""

    def __init__(self, folder: Path, disposal: Disposal) -> None:
        self._folder = folder
        self._disposal = disposal

    async def ran(
        self, mirror: Mirror, base: str, argv: Sequence[str], job: VerificationJob
    ) -> int | None:
        """None: it could not be counted, or tests may go."""
        if job.policy.test_removal == "allow" or _is_waived(job):
            return None
        path = self._folder / _key(mirror, base, argv, job)
        try:
            return _Kept.model_validate_json(await asyncio.to_thread(path.read_bytes)).ran
        except (OSError, ValueError):
            pass  # nobody has counted yet
        ran, lasts = await self._count(mirror, base, argv, job)
        if lasts:
            await asyncio.to_thread(self._keep, path, ran)
        return ran

    async def _count(
        self, mirror: Mirror, base: str, argv: Sequence[str], job: VerificationJob
    ) -> tuple[int | None, bool]:
        """Also whether it would be the same again."""
        async with prepared(mirror, base, job, self._disposal) as place:
            if place.broken is not None:
                return None, True
            done = await place.run(argv)
        if done.exit_code is None:
            return None, done.timed_out
        found = counted(done.output_tail)
        return found.ran if found is not None else None, True

    def _keep(self, path: Path, ran: int | None) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh = path.with_suffix(".new")
        fresh.write_text(_Kept(ran=ran).model_dump_json())
        fresh.replace(path)
        kept = sorted(self._folder.iterdir(), key=lambda one: one.stat().st_mtime)
        for old in kept[:-KEPT_MAX]:
            old.unlink()


def _is_waived(job: VerificationJob) -> bool:
    """Whoever lets a test go lets it go from the count, too."""
    return any(one.check == "tests_kept" for one in job.waivers)


def _key(mirror: Mirror, base: str, argv: Sequence[str], job: VerificationJob) -> str:
    """What the outcome of the command depends on, as far as we know."""
    words = [
        mirror.path.name,
        base,
        list(argv),
        job.policy.setup,
        job.policy.environment,
        os.environ.get("PATH"),
    ]
    return hashlib.sha256(json.dumps(words).encode()).hexdigest()
