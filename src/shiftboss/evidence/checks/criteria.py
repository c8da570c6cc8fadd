"""The commands of a contract, each run in a clean checkout of the claimed commit."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pydantic import BaseModel

from shiftboss.evidence.checks.commit import ClaimedCommit
from shiftboss.evidence.mirror.checkout import left_out, not_possible, prepared, result_of
from shiftboss.evidence.mirror.mirror import Mirror
from shiftboss.protocol.verdicts import VerificationJob
from shiftboss.rules.claims.criteria import CheckableCriterion, counted, objection, parse_criterion
from shiftboss.rules.claims.verdicts import Checked, not_made
from shiftboss.system.background_delete import BackgroundDelete

# How many tests ran at the base: fewer must not pass at the claimed commit.
#
# There are more ways to switch a test off than can be found by reading. Counting finds them all.


KEPT_MAX: Final = 1000


class _CachedCount(BaseModel):
    ran: int | None


class BaseTestCounts:
    """Counts are kept in a folder: a base has many claims."""

    def __init__(self, folder: Path, disposal: BackgroundDelete) -> None:
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
            return _CachedCount.model_validate_json(await asyncio.to_thread(path.read_bytes)).ran
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
        fresh.write_text(_CachedCount(ran=ran).model_dump_json())
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


FREE_TEXT = "no command can check it"


def not_run(job: VerificationJob, reason: str) -> list[Checked]:
    """All of them, with the reason why nobody looked."""
    return [
        *(not_made("setup", reason, one) for one in job.policy.setup),
        *(not_made("criterion", reason, one) for one in job.contract.success_criteria),
    ]


class CriteriaCheck:
    """Of one claim. Each command has a checkout of its own: what runs for one of them could change
    the script of the next."""

    def __init__(
        self,
        mirror: Mirror,
        claim: ClaimedCommit,
        job: VerificationJob,
        disposal: BackgroundDelete,
        base_runs: BaseTestCounts,
    ) -> None:
        assert claim.commit is not None
        assert claim.base is not None
        self._mirror = mirror
        self._commit = claim.commit
        self._base = claim.base
        self._job = job
        self._disposal = disposal
        self._base_runs = base_runs
        # Of the first checkout, and the command of it that failed.
        self._setup: Sequence[Checked] | None = None
        self._broken: str | None = None

    async def make(self) -> list[Checked]:
        """First what prepares the checkout, then the criteria, in the order of the contract."""
        criteria = [await self._criterion(text) for text in self._job.contract.success_criteria]
        if self._setup is None and self._job.policy.setup:
            async with prepared(self._mirror, self._commit, self._job, self._disposal) as place:
                self._setup = place.setup
        return [*(self._setup or ()), *criteria]

    async def _criterion(self, text: str) -> Checked:
        if self._broken is not None:
            return not_made("criterion", left_out(self._broken), text)
        try:
            criterion = parse_criterion(text)
        except ValueError as error:
            return not_possible("criterion", text, str(error))
        if criterion is None:
            return not_made("criterion", FREE_TEXT, text)
        return await self._run(text, criterion)

    async def _run(self, text: str, criterion: CheckableCriterion) -> Checked:
        async with prepared(self._mirror, self._commit, self._job, self._disposal) as place:
            if place.broken is not None:
                return self._unprepared(text, place.setup, place.broken)
            self._setup = self._setup or place.setup
            done = await place.run(criterion.argv)
        problem = objection(criterion, done)
        if problem is None and criterion.kind == "tests":
            ran = await self._base_runs.ran(self._mirror, self._base, criterion.argv, self._job)
            problem = objection(criterion, done, ran)
        return result_of("criterion", text, done, problem)

    def _unprepared(self, text: str, setup: Sequence[Checked], broken: str) -> Checked:
        """The setup is what fails; if it worked before, it is the criterion that cannot be run."""
        if self._setup is not None:
            return not_possible("criterion", text, left_out(broken))
        self._setup, self._broken = setup, broken
        return not_made("criterion", left_out(broken), text)
