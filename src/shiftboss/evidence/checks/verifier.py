"""Looking at a claim: every check in turn, on our own copy of the repository."""

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
    no_change,
    resolve_claim,
)
from shiftboss.evidence.checks.criteria import BaseTestCounts, CriteriaCheck, not_run
from shiftboss.evidence.checks.kept_tests import check_tests_kept
from shiftboss.evidence.checks.scope import Done, check_scope, check_target, look_at_work
from shiftboss.evidence.mirror.mirror import Mirror, Mirrors
from shiftboss.protocol.ci import CiJob, CiRun
from shiftboss.protocol.verdicts import Change, Verdict, VerificationJob
from shiftboss.rules.claims.verdicts import (
    Checked,
    is_accepted,
    not_made,
    with_policy,
    with_waivers,
)
from shiftboss.rules.paths.changes import FileChange
from shiftboss.system.background_delete import BackgroundDelete

CHANGES_MAX: Final = 1000
COMMITS_MAX: Final = 1000
_MOVED: Final = " any more: it was moved after the claim"


class _Verification(NamedTuple):
    """What was found. `done` is None where the commit gave no reason to look further."""

    claim: ClaimedCommit
    checks: list[Checked]
    done: Done | None = None
    ci_runs: Sequence[CiRun] = ()


class Verifier:
    """Holds mirrors in its folder, and checkouts beside them or where `checkouts` says.
    `at_once` claims are looked at together, of one repository one at a time."""

    def __init__(
        self,
        folder: Path,
        *,
        checkouts: Path | None = None,
        at_once: int = 2,
        ask_ci: AskCi = no_ci,
        writing: asyncio.Lock | None = None,
    ) -> None:
        self._mirrors = Mirrors(folder / "mirrors")
        self._deletion = BackgroundDelete(checkouts or folder / "checkouts", writing)
        self._base_runs = BaseTestCounts(folder / "base-runs", self._deletion)
        self._turns = asyncio.Semaphore(at_once)
        self._ask_ci = ask_ci
        self._opening = asyncio.Lock()
        self._is_open = False

    async def verify(self, job: VerificationJob) -> Verdict:
        """Raises UnknownRepo or EvidenceUnavailable when there is nothing to look at."""
        mirror = await self._mirrors.of(job.repo)
        # The fetch is what a repository can draw out; nobody else waits for it.
        async with mirror.in_use:
            started_at = time.monotonic()
            await mirror.refresh()
            fetched_at = time.monotonic()
            async with self._turns:
                taken_at = time.monotonic()
                await self._open()
                look = await self._look(mirror, job)
        seconds = (fetched_at - started_at) + (time.monotonic() - taken_at)
        return _verdict(job, look, round(seconds * 1000))

    async def close(self) -> None:
        """Wait until the last checkout is removed."""
        await self._deletion.close()

    async def _open(self) -> None:
        async with self._opening:
            if not self._is_open:
                await self._deletion.open()
                self._is_open = True

    async def _look(self, mirror: Mirror, job: VerificationJob) -> _Verification:
        claim, checked = await resolve_claim(mirror, job)
        if claim.commit is None:
            return _Verification(claim, [checked, *_nothing_further(job, "there is no commit")])
        checks = [checked]
        done, ancestry = await _ancestry(mirror, claim, job)
        branch = await check_branch(mirror, claim.commit, job.branch)
        checks += [_waived(ancestry, job), _waived(branch, job)]
        if done is None:
            rest = _nothing_further(job, "not looked at, the ancestry failed")
            return _Verification(claim, [*checks, *rest[2:]])
        scope, tests = await asyncio.gather(
            check_scope(done, job), check_tests_kept(mirror, done.net, job)
        )
        checks += [_waived(scope, job), _waived(tests, job)]
        runs: list[CiRun] = []
        if job.ci is not None:
            said, report = await check_ci(self._ask_ci, job.ci, claim.commit)
            checks += [_waived(one, job) for one in said]
            runs = report.runs
        checks += await self._criteria(mirror, claim, job, checks)
        if checks[2].holds:
            checks[2] = await _branches_again(mirror, claim, done, job, checks[2])
        return _Verification(claim, checks, done, runs)

    async def _criteria(
        self, mirror: Mirror, claim: ClaimedCommit, job: VerificationJob, checks: Sequence[Checked]
    ) -> list[Checked]:
        """Commands take time; they are not run for work that is refused anyway."""
        broken = next((one.result.check for one in checks if not one.holds), None)
        if broken is not None:
            return not_run(job, f"not run, the check {broken} failed")
        check = CriteriaCheck(mirror, claim, job, self._deletion, self._base_runs)
        ran = await check.make()
        return [_waived(with_policy(one, job.policy), job) for one in ran]


async def _ancestry(
    mirror: Mirror, claim: ClaimedCommit, job: VerificationJob
) -> tuple[Done | None, Checked]:
    checked = await check_ancestry(mirror, claim, job)
    if claim.base is None or not _waived(checked, job).holds:
        return None, checked
    done = await look_at_work(mirror, claim, job)
    if checked.holds and not done.net.files:
        assert claim.commit is not None
        return done, no_change(claim.commit)
    return done, checked


async def _branches_again(
    mirror: Mirror, claim: ClaimedCommit, done: Done, job: VerificationJob, before: Checked
) -> Checked:
    """Somebody may have moved them meanwhile."""
    assert claim.commit is not None
    await mirror.refresh(tidy=False)
    for now in (
        await check_branch(mirror, claim.commit, job.branch, _MOVED),
        await check_target(mirror, claim, done.span, job.target),
    ):
        if not _waived(now, job).holds:
            return _waived(now, job)
    return before


def _nothing_further(job: VerificationJob, reason: str) -> list[Checked]:
    return [
        *(not_made("ancestry", reason), not_made("branch", reason)),
        *(not_made("scope", reason), not_made("tests_kept", reason)),
        *not_run(job, reason),
    ]


def _waived(checked: Checked, job: VerificationJob) -> Checked:
    return with_waivers(checked, job.waivers)


def _verdict(job: VerificationJob, look: _Verification, duration_ms: int) -> Verdict:
    net = look.done.net if look.done is not None else None
    return Verdict(
        accepted=is_accepted(look.checks, job.policy),
        base_commit=job.base_commit,
        commit=look.claim.commit,
        tree=look.claim.tree if look.claim.commit is not None else None,
        checks=[one.result for one in look.checks],
        violations=[violation for one in look.checks for violation in one.violations],
        changes=[_change(one) for one in net.files[:CHANGES_MAX]] if net is not None else [],
        files_changed=len(net.files) if net is not None else 0,
        lines_added=net.lines_added if net is not None else 0,
        lines_deleted=net.lines_deleted if net is not None else 0,
        target_commit=look.done.target if look.done is not None else None,
        merged_from_target=_merged(look.done) if look.done is not None else [],
        ci_runs=[one.model_copy(update={"jobs": _without_logs(one)}) for one in look.ci_runs],
        duration_ms=duration_ms,
    )


def _merged(done: Done) -> list[str]:
    return done.span.from_target[:COMMITS_MAX]


def _without_logs(run: CiRun) -> list[CiJob]:
    return [job.model_copy(update={"log_tail": None}) for job in run.jobs]


def _change(file: FileChange) -> Change:
    """A change of the mode alone is a T."""
    only_mode = file.mode_changed and file.blob == file.old_blob
    return Change(
        path=file.path,
        status="T" if only_mode and file.status == "M" else file.status,
        old_path=file.old_path,
        mode=file.new_mode if file.mode_changed else None,
    )
