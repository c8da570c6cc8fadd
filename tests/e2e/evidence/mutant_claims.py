"""Claims of work in a small shop whose mutants are run with real git and real commands."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from shiftboss.evidence.checks.mutants import ChangedWork, check_mutants
from shiftboss.evidence.commands.command import Limits
from shiftboss.evidence.mirror.changes import net_change
from shiftboss.evidence.mirror.checkout import CheckoutWithSetup, checkout_with_setup
from shiftboss.evidence.mirror.mirror import Mirror, Mirrors
from shiftboss.evidence.mirror.overlays import Overlay
from shiftboss.evidence.mirror.reused_checkout import ReusedCheckout
from shiftboss.rules.claims.test_runs.judgement import CommandRun
from shiftboss.rules.claims.verdicts import CheckOutcome
from shiftboss.system.background_delete import BackgroundDelete
from tests.ended_runs import ended, report_of
from tests.repos import Repo

UNITTEST = ("python3", "-m", "unittest", "-q")
SHOP = """\
def total(prices, discount):
    result = 0
    for price in prices:
        if price > 0:
            result += price
    return result - discount


def cheapest(prices):
    return min(prices)
"""
TESTS = """\
import unittest
import shop

class Shop(unittest.TestCase):
    def test_total(self):
        self.assertEqual(shop.total([1, 2], 1), 2)
"""
EMPTY_TESTS = TESTS.replace("self.assertEqual(shop.total([1, 2], 1), 2)", "shop.total([1, 2], 1)")


class MutantClaim:
    """The tip of `task`, compared with the base of the repository."""

    def __init__(self, folder: Path, repo: Repo, **policy: Any) -> None:
        self.job = repo.job(policy=policy)
        self._repo = repo
        self._mirrors = Mirrors(folder / "mirrors", hidden=())
        self._deletion = BackgroundDelete(folder / "checkouts")
        self.limits: list[float] = []
        self.runs_with_setup = 0

    @asynccontextmanager
    async def mirror(self) -> AsyncIterator[Mirror]:
        mirror = await self._mirrors.of(str(self._repo.path))
        await mirror.refresh()
        await self._deletion.open()
        try:
            yield mirror
        finally:
            await self._deletion.close()

    def reused(self, mirror: Mirror) -> ReusedCheckout:
        head = self._repo.head()
        return ReusedCheckout(lambda: checkout_with_setup(mirror, head, self.job, self._deletion))

    async def check(self, green_seconds: float = 1.0, seed: int = 1) -> CheckOutcome:
        async with self.mirror() as mirror, self.reused(mirror) as reused:

            async def run(files: Mapping[str, bytes], seconds: float) -> CommandRun:
                self.limits.append(seconds)
                async with reused.with_files(files) as checkout:
                    return await unittest(checkout, seconds)

            async def run_with_setup(files: Mapping[str, bytes], seconds: float) -> CommandRun:
                self.runs_with_setup += 1
                async with checkout_with_setup(
                    mirror, self._repo.head(), self.job, self._deletion, Overlay(files)
                ) as checkout:
                    return await unittest(checkout, seconds)

            return await check_mutants(
                await self.work(mirror),
                self.job.policy,
                "Tests pass: python -m unittest",
                ended(0, seconds=green_seconds),
                run,
                run_with_setup,
                random.Random(seed),
            )

    async def work(self, mirror: Mirror) -> ChangedWork:
        before, after = self._repo.base, self._repo.head()
        files = (await net_change(mirror, before, after)).files
        return ChangedWork(mirror, before, after, files)


async def unittest(checkout: CheckoutWithSetup, seconds: float) -> CommandRun:
    limited = checkout._replace(limits=Limits(seconds=seconds, megabytes=1024))
    result = await limited.run(UNITTEST)
    lines = result.output_tail.splitlines()
    failed = tuple(line.split()[1] for line in lines if line.startswith("FAIL: "))
    return CommandRun("unittest", False, result, report_of(failed))
