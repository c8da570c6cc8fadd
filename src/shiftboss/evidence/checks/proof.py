"""Whether tests that pass prove anything: the base's versions of them, canaries and mutants.

A check that cannot fail proves nothing. All runs here use the same command and environment as the
criterion itself, so that the code under test cannot tell them apart by these.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Final

from shiftboss.evidence.checks.canary import check_canaries
from shiftboss.evidence.checks.mutants import ChangedWork, check_mutants
from shiftboss.evidence.checks.scope import ClaimedWork
from shiftboss.evidence.checks.test_files import unexplained_problem
from shiftboss.evidence.checks.test_runs import CommitUnderTest, is_removal_waived
from shiftboss.evidence.mirror.checkout import failure_hint, unrunnable_command
from shiftboss.evidence.mirror.overlays import Overlay, UnwritableCheckout
from shiftboss.evidence.mirror.reused_checkout import ReusedCheckout
from shiftboss.protocol.claims.verdicts import CheckName, CheckResult, Violation
from shiftboss.rules.claims.kept_tests import is_harness_file
from shiftboss.rules.claims.refusal_advice import DISPUTE
from shiftboss.rules.claims.test_runs.judgement import CommandRun, Judgement, judge_base_tests
from shiftboss.rules.claims.test_runs.run_report import RunReport
from shiftboss.rules.claims.verdicts import CheckOutcome, unverifiable
from shiftboss.rules.paths.changes import NO_MODE, SUBMODULE, SYMLINK, FileChange
from shiftboss.rules.paths.patterns import Scope
from shiftboss.system.processes.cancellation import run_together

BASE_FILE_BYTES_MAX: Final = 8 * 2**20
BASE_BYTES_MAX: Final = 64 * 2**20
_NOTHING_RAN: Final = RunReport("report", (), 0, 0)
_BASE_TESTS_HINT: Final = (
    "the work must pass these tests as they were; if their expectations have to change, "
    f"{DISPUTE}: the contract must name them in expectations_change"
)
_UNWRITABLE: Final = "the setup puts something in the way of test files that are written after it"


def judged_tests(
    check: CheckName, text: str, run: CommandRun, judgement: Judgement
) -> CheckOutcome:
    """The check of a criterion `text`, with its run as the evidence."""
    result = run.result
    checked = CheckResult(
        check=check,
        outcome=judgement.outcome,
        message=judgement.message,
        subject=text,
        exit_code=result.exit_code,
        output_tail=result.output_tail,
        duration_ms=result.duration_ms,
        sandbox=result.sandbox,
        tests=run.report.totals if run.report is not None else None,
    )
    if judgement.outcome != "failed":
        return CheckOutcome(checked)
    hint = _BASE_TESTS_HINT if check == "base_tests" else failure_hint(check, result)
    violation = Violation(check=check, message=f"{text}: {judgement.message}", hint=hint)
    return CheckOutcome(checked, [violation], result.missing)


class Proof:
    """The proof of one criterion `text` whose tests have passed in the run `green`."""

    def __init__(
        self,
        tested: CommitUnderTest,
        work: ClaimedWork,
        text: str,
        argv: Sequence[str],
        green: CommandRun,
        base: RunReport | None,
    ) -> None:
        self._tested = tested
        self._work = work
        self._text = text
        self._argv = argv
        self._green = green
        self._base = base

    async def make(self) -> list[CheckOutcome]:
        """The checks that apply. After a step that failed, the others are not run."""
        checks: list[CheckOutcome] = []
        for step in self._steps():
            checked = await run_together(*(check() for check in step))
            checks += [check for check in checked if check is not None]
            if not all(check.holds for check in checks):
                break
        return checks

    def _steps(self) -> list[list[Callable[[], Coroutine[Any, Any, CheckOutcome | None]]]]:
        """Each run takes as long as the criterion. Contained commands have ports and temporary
        files of their own, so that they can run at once."""
        if self._green.result.is_contained and self._tested.job.policy.network != "all":
            return [[self._base_tests], [self._canaries, self._mutants]]
        return [[self._base_tests], [self._canaries], [self._mutants]]

    async def _base_tests(self) -> CheckOutcome | None:
        """None if the work changed no test of the base, or tests may be removed anyway."""
        policy = self._tested.job.policy
        if policy.test_removal == "allow" or is_removal_waived(self._tested.job):
            return None
        overlay = await self._files_of_base()
        if not overlay:
            return None
        try:
            run = await self._tested.run(self._argv, overlay)
        except UnwritableCheckout:
            return unrunnable_command("base_tests", self._text, _UNWRITABLE)
        if run is None:
            return unverifiable("base_tests", "not run, the setup failed", self._text)
        base = self._base or _NOTHING_RAN
        judgement = judge_base_tests(run, base, overlay.keys())
        if judgement.outcome == "passed":
            judgement = await self._test_base_tests(run, base, overlay) or judgement
        return judged_tests("base_tests", self._text, run, judgement)

    async def _test_base_tests(
        self, run: CommandRun, base: RunReport, overlay: Mapping[str, bytes]
    ) -> Judgement | None:
        """Code under test can tell the versions of a test file apart, and lie only to the old one:
        the same is asked about this run as about the criterion. None if nothing is wrong."""
        problem = await unexplained_problem(self._tested, self._argv, run, base, overlay)
        if problem is not None:
            return Judgement("failed", problem)
        if self._tested.job.policy.canaries == "off" or run.report is None or not run.report.tests:
            return None
        canary = await check_canaries(self._tested, self._text, self._argv, run, overlay)
        return None if canary.holds else Judgement("failed", canary.result.message)

    async def _files_of_base(self) -> dict[str, bytes]:
        """The test files of the base that the work changed or deleted, as they were."""
        changed = Scope(self._tested.job.policy.expectations_change)
        blobs = {
            path: file.old_blob
            for file in self._work.net.files
            if (path := _changed_base_path(file)) is not None
            and is_harness_file(path)
            and not changed.covers(path)
        }
        blobs |= await self._replaced_modules(blobs)
        if not blobs:
            return {}
        contents = await self._tested.mirror.read(
            list(dict.fromkeys(blobs.values())), BASE_FILE_BYTES_MAX, BASE_BYTES_MAX
        )
        return {path: contents[blob] for path, blob in blobs.items() if blob in contents}

    async def _replaced_modules(self, changed: Mapping[str, str]) -> dict[str, str]:
        """New packages that Python imports instead of a module of the base: `__init__.py` gets the
        content of the module."""
        packages = [
            path.removesuffix("/__init__.py")
            for file in self._work.net.files
            if (path := file.path).endswith("/__init__.py")
            and file.old_mode == NO_MODE
            and is_harness_file(path)
        ]
        if not packages:
            return {}
        blobs = await self._tested.mirror.regular_files(self._tested.commit) | dict(changed)
        return {
            f"{package}/__init__.py": blobs[f"{package}.py"]
            for package in packages
            if f"{package}.py" in blobs
        }

    async def _canaries(self) -> CheckOutcome | None:
        if self._tested.job.policy.canaries == "off":
            return None
        try:
            return await check_canaries(self._tested, self._text, self._argv, self._green)
        except UnwritableCheckout:
            return unrunnable_command("canary", self._text, _UNWRITABLE)

    async def _mutants(self) -> CheckOutcome | None:
        tested = self._tested
        if tested.job.policy.mutants == "off":
            return None
        work = ChangedWork(
            tested.mirror, self._work.commits.start, tested.commit, self._work.net.files
        )
        async with ReusedCheckout(tested.checkout) as reused:

            async def run(files: Mapping[str, bytes], seconds: float) -> CommandRun | None:
                async with reused.with_files(files) as checkout:
                    return await tested.run_in(checkout, self._argv, seconds)

            async def run_with_setup(
                files: Mapping[str, bytes], seconds: float
            ) -> CommandRun | None:
                async with tested.checkout(Overlay(files)) as checkout:
                    return await tested.run_in(checkout, self._argv, seconds)

            checked = await check_mutants(
                work, tested.job.policy, self._text, self._green, run, run_with_setup
            )
        may_be_tested_by_ci = tested.job.ci is not None and tested.job.policy.mutants == "report"
        return _tested_by_ci(checked) if may_be_tested_by_ci else checked


def _tested_by_ci(checked: CheckOutcome) -> CheckOutcome:
    """Tests that need other repositories or services may run in CI alone, where nothing is mutated:
    tests that notice no mutant do not refuse the work then."""
    result = checked.result
    if checked.holds:
        return checked
    message = f"{result.message}; tests of CI may notice them"
    return CheckOutcome(result.model_copy(update={"outcome": "unverifiable", "message": message}))


def _changed_base_path(file: FileChange) -> str | None:
    """The path of a regular file of the base whose content the work changed, moved or deleted."""
    if file.old_mode in (NO_MODE, SUBMODULE, SYMLINK):
        return None
    is_same = file.old_blob == file.blob and file.old_path is None and file.new_mode != NO_MODE
    return None if is_same else file.old_path or file.path
