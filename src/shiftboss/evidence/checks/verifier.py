"""Verifying a claim: every check in turn, on our own copy of the repository."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from shiftboss.evidence.checks.ci import AskCi, check_ci, no_ci
from shiftboss.evidence.checks.commit import (
    ClaimedCommit,
    check_ancestry,
    check_branch,
    check_change,
    resolve_claim,
    tip_of,
)
from shiftboss.evidence.checks.criteria import CriteriaCheck, not_run
from shiftboss.evidence.checks.kept_tests import check_tests_kept
from shiftboss.evidence.checks.scope import ClaimedWork, check_scope, check_target, read_work
from shiftboss.evidence.checks.test_runs import BaseRuns
from shiftboss.evidence.mirror.mirror import Mirror, Mirrors
from shiftboss.protocol.ci import CiJob, CiRun
from shiftboss.protocol.claims.verdicts import Change, Verdict, VerificationJob
from shiftboss.rules.claims.rejections import check_rejections
from shiftboss.rules.claims.verdicts import (
    CheckOutcome,
    is_accepted,
    missing_here,
    unverifiable,
    with_policy,
    with_waivers,
)
from shiftboss.rules.paths.changes import FileChange
from shiftboss.system.background_delete import BackgroundDelete

CHANGES_MAX: Final = 1000
COMMITS_MAX: Final = 1000
_MOVED: Final = " any more: it was moved after the claim"


class _Verification(NamedTuple):
    """`work` is None if the checks of the commit failed and nothing more was read."""

    claim: ClaimedCommit
    checks: list[CheckOutcome]
    work: ClaimedWork | None = None
    ci_runs: Sequence[CiRun] = ()


class Verifier:
    """Keeps mirrors in its folder, and checkouts beside them or in `checkouts`. Verifies `at_once`
    claims concurrently, but only one of each repository. Commands see neither its folder nor what
    is `hidden`."""

    def __init__(
        self,
        folder: Path,
        *,
        checkouts: Path | None = None,
        at_once: int = 2,
        ask_ci: AskCi = no_ci,
        writing: asyncio.Lock | None = None,
        hidden: Sequence[Path] = (),
    ) -> None:
        self.mirrors = Mirrors(folder / "mirrors", [folder, *hidden])
        self._deletion = BackgroundDelete(checkouts or folder / "checkouts", writing)
        self._base_runs = BaseRuns(folder / "base-runs", self._deletion)
        self._turns = asyncio.Semaphore(at_once)
        self._ask_ci = ask_ci
        self._opening = asyncio.Lock()
        self._is_open = False

    async def verify(self, job: VerificationJob) -> Verdict:
        """Raises UnknownRepo or EvidenceUnavailable if the repository cannot be read."""
        mirror = await self.mirrors.of(job.repo)
        # A repository can make the fetch slow, so it takes none of the turns.
        async with mirror.in_use:
            started_at = time.monotonic()
            await mirror.refresh()
            fetched_at = time.monotonic()
            async with self._turns:
                taken_at = time.monotonic()
                await self._open()
                async with mirror.one_reader():
                    verification = await self._verify(mirror, job)
        seconds = (fetched_at - started_at) + (time.monotonic() - taken_at)
        return _verdict(job, verification, round(seconds * 1000))

    async def close(self) -> None:
        """Wait until the last checkout is removed."""
        await self._deletion.close()

    async def _open(self) -> None:
        async with self._opening:
            if not self._is_open:
                await self._deletion.open()
                self._is_open = True

    async def _verify(self, mirror: Mirror, job: VerificationJob) -> _Verification:
        claim, checked = await resolve_claim(mirror, job)
        if claim.commit is None:
            return _Verification(claim, [checked, *_unchecked(job, "there is no commit")])
        checks = [checked]
        work, ancestry = await _ancestry(mirror, claim, job)
        branch = await check_branch(mirror, claim.commit, job.branch, claim.tip)
        checks += [_waived(ancestry, job), _waived(branch, job)]
        rejections = check_rejections(job, claim.commit, claim.tree)
        checks += [_waived(check, job) for check in rejections]
        if work is None:
            rest = _unchecked(job, "not checked, the ancestry failed")
            return _Verification(claim, [*checks, *rest[2:]])
        scope, tests = await asyncio.gather(
            check_scope(work, job), check_tests_kept(mirror, work.net, job)
        )
        checks += [_waived(scope, job), _waived(tests, job)]
        runs: list[CiRun] = []
        if job.ci is not None:
            ci_checks, report = await check_ci(self._ask_ci, job.ci, claim.commit)
            checks += [_waived(check, job) for check in ci_checks]
            runs = report.runs
        checks += await self._criteria(mirror, claim, work, job, checks)
        if checks[2].holds:
            checks[2] = await _check_branches_again(mirror, claim, work, job, checks[2])
        return _Verification(claim, checks, work, runs)

    async def _criteria(
        self,
        mirror: Mirror,
        claim: ClaimedCommit,
        work: ClaimedWork,
        job: VerificationJob,
        checks: Sequence[CheckOutcome],
    ) -> list[CheckOutcome]:
        """Commands take time, so they are not run for work that is refused anyway."""
        failed = next((check.result.check for check in checks if not check.holds), None)
        if failed is not None:
            return not_run(job, f"not run, the check {failed} failed")
        criteria = CriteriaCheck(mirror, claim, job, self._deletion, self._base_runs, work)
        return [_waived(with_policy(check, job.policy), job) for check in await criteria.make()]


async def _ancestry(
    mirror: Mirror, claim: ClaimedCommit, job: VerificationJob
) -> tuple[ClaimedWork | None, CheckOutcome]:
    checked = await check_ancestry(mirror, claim, job)
    if claim.base is None or not _waived(checked, job).holds:
        return None, checked
    work = await read_work(mirror, claim, job)
    if checked.holds and claim.commit != claim.base:
        return work, check_change(claim, job, has_changed=bool(work.net.files))
    return work, checked


async def _check_branches_again(
    mirror: Mirror,
    claim: ClaimedCommit,
    work: ClaimedWork,
    job: VerificationJob,
    before: CheckOutcome,
) -> CheckOutcome:
    """The branches may have been moved while the checks ran."""
    assert claim.commit is not None
    if await _are_unmoved(mirror, claim, work, job):
        return before
    await mirror.refresh(maintain=False)
    tip = await tip_of(mirror, job.branch)
    for now in (
        await check_branch(mirror, claim.commit, job.branch, tip, _MOVED),
        await check_target(mirror, claim, work.commits, job.target),
    ):
        if not _waived(now, job).holds:
            return _waived(now, job)
    return before


async def _are_unmoved(
    mirror: Mirror, claim: ClaimedCommit, work: ClaimedWork, job: VerificationJob
) -> bool:
    """Whether the branches are surely where they were, which takes a tenth of a fetch to see."""
    if job.branch is None or claim.tip is None:
        return False
    before = {job.branch: claim.tip}
    if work.commits.from_target:
        assert job.target is not None
        assert work.target is not None
        before[job.target] = work.target
    return await mirror.tips_at_source(list(before)) == before


def _unchecked(job: VerificationJob, reason: str) -> list[CheckOutcome]:
    return [
        *(unverifiable("ancestry", reason), unverifiable("branch", reason)),
        *(unverifiable("scope", reason), unverifiable("tests_kept", reason)),
        *not_run(job, reason),
    ]


def _waived(checked: CheckOutcome, job: VerificationJob) -> CheckOutcome:
    return with_waivers(checked, job.waivers)


def _verdict(job: VerificationJob, verification: _Verification, duration_ms: int) -> Verdict:
    claim, checks, work, ci_runs = verification
    net = work.net if work is not None else None
    return Verdict(
        accepted=is_accepted(checks, job.policy),
        base_commit=job.base_commit,
        commit=claim.commit,
        tree=claim.tree if claim.commit is not None else None,
        checks=[check.result for check in checks],
        violations=[violation for check in checks for violation in check.violations],
        changes=[_change(file) for file in net.files[:CHANGES_MAX]] if net is not None else [],
        files_changed=len(net.files) if net is not None else 0,
        lines_added=net.lines_added if net is not None else 0,
        lines_deleted=net.lines_deleted if net is not None else 0,
        target_commit=work.target if work is not None else None,
        merged_from_target=work.commits.from_target[:COMMITS_MAX] if work is not None else [],
        ci_runs=[run.model_copy(update={"jobs": _without_logs(run)}) for run in ci_runs],
        duration_ms=duration_ms,
        missing=missing_here(checks),
    )


def _without_logs(run: CiRun) -> list[CiJob]:
    return [job.model_copy(update={"log_tail": None}) for job in run.jobs]


def _change(file: FileChange) -> Change:
    """A change of the mode only has the status T."""
    only_mode = file.mode_changed and file.blob == file.old_blob
    return Change(
        path=file.path,
        status="T" if only_mode and file.status == "M" else file.status,
        old_path=file.old_path,
        mode=file.new_mode if file.mode_changed else None,
    )
