"""The checks "setup" and "criterion": the commands of a contract, run in clean checkouts."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Final

from shiftboss.evidence.checks.commit import ClaimedCommit
from shiftboss.evidence.checks.held_out import check_held_out
from shiftboss.evidence.checks.kept_tests import FILE_BYTES_MAX
from shiftboss.evidence.checks.proof import Proof, judged_tests
from shiftboss.evidence.checks.scope import ClaimedWork
from shiftboss.evidence.checks.test_files import unexplained_problem
from shiftboss.evidence.checks.test_runs import BaseRuns, CommitUnderTest, run_tests
from shiftboss.evidence.mirror.checkout import (
    CheckoutWithSetup,
    checked_command,
    checkout_with_setup,
    skipped_by,
    unrunnable_command,
)
from shiftboss.evidence.mirror.mirror import Mirror
from shiftboss.evidence.mirror.overlays import Overlay
from shiftboss.protocol.claims.verdicts import VerificationJob
from shiftboss.rules.claims.criteria import CheckableCriterion, parse_criterion
from shiftboss.rules.claims.kept_tests import is_harness_file
from shiftboss.rules.claims.mutants.outcome import judged_together
from shiftboss.rules.claims.test_runs.judgement import CommandRun, Judgement, judge_run
from shiftboss.rules.claims.test_runs.run_report import RunReport
from shiftboss.rules.claims.verdicts import CheckOutcome, unverifiable, with_waivers
from shiftboss.rules.paths.changes import NO_MODE
from shiftboss.rules.paths.patterns import Scope
from shiftboss.system.background_delete import BackgroundDelete

FREE_TEXT: Final = "no command can check it"


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
        base_runs: BaseRuns,
        work: ClaimedWork | None = None,
    ) -> None:
        """Without `work`, the proof itself is not tested: it was tested before."""
        assert claim.commit is not None
        assert claim.base is not None
        self._mirror = mirror
        self._commit = claim.commit
        self._base = claim.base
        self._job = job
        self._deletion = deletion
        self._base_runs = base_runs
        self._work = work
        paths = work.work.names if work is not None else ()
        self._tested = CommitUnderTest(mirror, claim.commit, paths, job, deletion)
        # The results of the first setup, and its failed command.
        self._setup: Sequence[CheckOutcome] | None = None
        self._failed_setup: str | None = None

    async def make(self) -> list[CheckOutcome]:
        """The results of the setup, then those of the criteria, in the order of the contract."""
        criteria = [
            check
            for text in self._job.contract.success_criteria
            for check in await self._criterion(text)
        ]
        if self._setup is None and self._job.policy.setup:
            async with self._checkout() as checkout:
                self._setup = checkout.setup
        criteria = judged_together(criteria)
        held_out = await self._held_out(criteria)
        return [*(self._setup or ()), *criteria, *held_out]

    async def _held_out(self, criteria: Sequence[CheckOutcome]) -> list[CheckOutcome]:
        """Only for work that is not refused already, as it is not by a check that is waived."""
        waivers = self._job.waivers
        if self._work is None or not all(with_waivers(check, waivers).holds for check in criteria):
            return []
        results = [check.result for check in criteria if check.result.check == "criterion"]
        green = {
            result.subject: result.tests
            for result in results
            if result.subject is not None and result.tests is not None
        }
        checked = await check_held_out(self._run_with_files, self._job, green)
        if checked is None:
            return []
        return [checked]

    async def _run_with_files(self, overlay: Overlay, argv: Sequence[str]) -> CommandRun | None:
        return await self._tested.run_with(argv, overlay)

    def _checkout(self) -> AbstractAsyncContextManager[CheckoutWithSetup]:
        return checkout_with_setup(self._mirror, self._commit, self._job, self._deletion)

    async def _criterion(self, text: str) -> list[CheckOutcome]:
        if self._failed_setup is not None:
            return [unverifiable("criterion", skipped_by(self._failed_setup), text)]
        try:
            criterion = parse_criterion(text)
        except ValueError as error:
            return [unrunnable_command("criterion", text, str(error))]
        if criterion is None:
            return [unverifiable("criterion", FREE_TEXT, text)]
        async with self._checkout() as checkout:
            if checkout.failed_setup is not None:
                return [self._unprepared(text, checkout.setup, checkout.failed_setup)]
            self._setup = self._setup or checkout.setup
            if criterion.kind != "tests":
                result = await checkout.run(criterion.argv)
                problem = None if result.exit_code == 0 else result.message
                return [checked_command("criterion", text, result, problem)]
            run = await run_tests(checkout, criterion.argv, self._job, self._tested.paths)
        return await self._tests(text, criterion, run)

    async def _tests(
        self, text: str, criterion: CheckableCriterion, run: CommandRun
    ) -> list[CheckOutcome]:
        """The results of the tests, compared with the base; then whether the tests can fail."""
        judgement = judge_run(run)
        base = None
        if judgement.outcome != "failed":
            base = await self._base_runs.report(self._mirror, self._base, criterion.argv, self._job)
            base = _without(base, self._job.policy.expectations_change)
            changed = await self._changed_tests()
            judgement = await asyncio.to_thread(judge_run, run, base, changed)
        if judgement.outcome == "passed":
            problem = await unexplained_problem(self._tested, criterion.argv, run, base, {})
            judgement = judgement if problem is None else Judgement("failed", problem)
        checked = judged_tests("criterion", text, run, judgement)
        if judgement.outcome != "passed" or self._work is None:
            return [checked]
        proof = Proof(self._tested, self._work, text, criterion.argv, run, base)
        return [checked, *await proof.make()]

    async def _changed_tests(self) -> dict[str, str]:
        """The texts of the test files that the work changed; "" for deleted ones. Their
        tests are also compared in their version of the base, by the check base_tests."""
        files = self._work.net.files if self._work is not None else []
        changed = [file for file in files if any(map(is_harness_file, file.paths))]
        blobs = list(dict.fromkeys(file.blob for file in changed if file.new_mode != NO_MODE))
        contents = await self._mirror.read(blobs, FILE_BYTES_MAX) if blobs else {}
        texts = {path: "" for file in changed for path in file.paths}
        for file in changed:
            if file.new_mode != NO_MODE:
                texts[file.path] = contents.get(file.blob, b"").decode(errors="replace")
        return texts

    def _unprepared(
        self, text: str, setup: Sequence[CheckOutcome], failed_setup: str
    ) -> CheckOutcome:
        """The setup fails. But if it worked for an earlier criterion, this criterion fails."""
        if self._setup is not None:
            return unrunnable_command("criterion", text, skipped_by(failed_setup))
        self._setup, self._failed_setup = setup, failed_setup
        return unverifiable("criterion", skipped_by(failed_setup), text)


def _without(base: RunReport | None, patterns: Sequence[str]) -> RunReport | None:
    """Without the tests of files whose expectations the task changes."""
    changing = Scope(patterns)
    if base is None or not patterns or not base.tests:
        return base
    tests = [test for test in base.tests if not changing.covers(test.file or "")]
    return RunReport.of_tests(base.source, tests)
