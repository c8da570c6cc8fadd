"""The checks "setup" and "criterion": the commands of a contract, run in clean checkouts."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Final

from pydantic import BaseModel

from shiftboss.evidence.checks.commit import ClaimedCommit
from shiftboss.evidence.mirror.checkout import (
    CheckoutWithSetup,
    checked_command,
    checkout_with_setup,
    skipped_by,
    unrunnable_command,
)
from shiftboss.evidence.mirror.mirror import Mirror
from shiftboss.protocol.verdicts import VerificationJob
from shiftboss.rules.claims.criteria import (
    CheckableCriterion,
    count_tests,
    failure_reason,
    parse_criterion,
)
from shiftboss.rules.claims.verdicts import CheckOutcome, unverifiable
from shiftboss.system.background_delete import BackgroundDelete

FREE_TEXT: Final = "no command can check it"
COUNTS_MAX: Final = 1000


def not_run(job: VerificationJob, reason: str) -> list[CheckOutcome]:
    """The results of all setup commands and criteria if none is run, with the reason."""
    return [
        *(unverifiable("setup", reason, text) for text in job.policy.setup),
        *(unverifiable("criterion", reason, text) for text in job.contract.success_criteria),
    ]


class CriteriaCheck:
    """The criteria of one claim. Each gets its own checkout: a command could change the script that
    the next one runs."""

    def __init__(
        self,
        mirror: Mirror,
        claim: ClaimedCommit,
        job: VerificationJob,
        deletion: BackgroundDelete,
        base_test_counts: BaseTestCounts,
    ) -> None:
        assert claim.commit is not None
        assert claim.base is not None
        self._mirror = mirror
        self._commit = claim.commit
        self._base = claim.base
        self._job = job
        self._deletion = deletion
        self._base_test_counts = base_test_counts
        # The results of the first setup, and its failed command.
        self._setup: Sequence[CheckOutcome] | None = None
        self._failed_setup: str | None = None

    async def make(self) -> list[CheckOutcome]:
        """The results of the setup, then those of the criteria, in the order of the contract."""
        criteria = [await self._criterion(text) for text in self._job.contract.success_criteria]
        if self._setup is None and self._job.policy.setup:
            async with self._checkout() as checkout:
                self._setup = checkout.setup
        return [*(self._setup or ()), *criteria]

    def _checkout(self) -> AbstractAsyncContextManager[CheckoutWithSetup]:
        return checkout_with_setup(self._mirror, self._commit, self._job, self._deletion)

    async def _criterion(self, text: str) -> CheckOutcome:
        if self._failed_setup is not None:
            return unverifiable("criterion", skipped_by(self._failed_setup), text)
        try:
            criterion = parse_criterion(text)
        except ValueError as error:
            return unrunnable_command("criterion", text, str(error))
        if criterion is None:
            return unverifiable("criterion", FREE_TEXT, text)
        return await self._run(text, criterion)

    async def _run(self, text: str, criterion: CheckableCriterion) -> CheckOutcome:
        async with self._checkout() as checkout:
            if checkout.failed_setup is not None:
                return self._unprepared(text, checkout.setup, checkout.failed_setup)
            self._setup = self._setup or checkout.setup
            result = await checkout.run(criterion.argv)
        problem = failure_reason(criterion, result)
        if problem is None and criterion.kind == "tests":
            base_count = await self._base_test_counts.count(
                self._mirror, self._base, criterion.argv, self._job
            )
            problem = failure_reason(criterion, result, base_count)
        return checked_command("criterion", text, result, problem)

    def _unprepared(
        self, text: str, setup: Sequence[CheckOutcome], failed_setup: str
    ) -> CheckOutcome:
        """The setup fails. But if it worked for an earlier criterion, this criterion fails."""
        if self._setup is not None:
            return unrunnable_command("criterion", text, skipped_by(failed_setup))
        self._setup, self._failed_setup = setup, failed_setup
        return unverifiable("criterion", skipped_by(failed_setup), text)


class _CachedCount(BaseModel):
    ran: int | None


class BaseTestCounts:
    """How many tests a command runs at the base: fewer must not pass at the claimed commit.

    There are more ways to switch a test off than can be found by reading; counting finds them all.
    The counts are cached in a folder, because many claims have the same base.
    """

    def __init__(self, folder: Path, deletion: BackgroundDelete) -> None:
        self._folder = folder
        self._deletion = deletion

    async def count(
        self, mirror: Mirror, base: str, argv: Sequence[str], job: VerificationJob
    ) -> int | None:
        """None: the tests could not be counted, or the policy allows their removal."""
        if job.policy.test_removal == "allow" or _is_waived(job):
            return None
        path = self._folder / _key(mirror, base, argv, job)
        try:
            return _CachedCount.model_validate_json(await asyncio.to_thread(path.read_bytes)).ran
        except (OSError, ValueError):
            pass  # not counted yet
        count, is_stable = await self._run(mirror, base, argv, job)
        if is_stable:
            await asyncio.to_thread(self._save, path, count)
        return count

    async def _run(
        self, mirror: Mirror, base: str, argv: Sequence[str], job: VerificationJob
    ) -> tuple[int | None, bool]:
        """The count, and whether another run would give the same."""
        async with checkout_with_setup(mirror, base, job, self._deletion) as checkout:
            if checkout.failed_setup is not None:
                return None, True
            result = await checkout.run(argv)
        if result.exit_code is None:
            return None, result.timed_out
        tests = count_tests(result.output_tail)
        return tests.ran if tests is not None else None, True

    def _save(self, path: Path, count: int | None) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        temporary = path.with_suffix(".new")
        temporary.write_text(_CachedCount(ran=count).model_dump_json())
        temporary.replace(path)
        oldest_first = sorted(self._folder.iterdir(), key=lambda file: file.stat().st_mtime)
        for file in oldest_first[:-COUNTS_MAX]:
            file.unlink()


def _is_waived(job: VerificationJob) -> bool:
    """A waiver that lets tests be removed also waives their count."""
    return any(waiver.check == "tests_kept" for waiver in job.waivers)


def _key(mirror: Mirror, base: str, argv: Sequence[str], job: VerificationJob) -> str:
    """A hash of what the result of the command depends on, as far as we know."""
    inputs = [
        mirror.path.name,
        base,
        list(argv),
        job.policy.setup,
        job.policy.environment,
        os.environ.get("PATH"),
    ]
    return hashlib.sha256(json.dumps(inputs).encode()).hexdigest()
