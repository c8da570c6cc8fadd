"""Looking at a claim: every check in turn, on our own copy of the repository."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from shiftboss.evidence.commit_checks import (
    Claim,
    check_ancestry,
    check_branch,
    look_at_claim,
    no_change,
)
from shiftboss.evidence.criteria_check import check_criteria, not_run
from shiftboss.evidence.disposal import Disposal
from shiftboss.evidence.mirror import Mirror, Mirrors
from shiftboss.evidence.scope_check import Done, look_at_work
from shiftboss.evidence.tests_check import check_tests_kept
from shiftboss.protocol.verdict import Change, Verdict, VerificationJob
from shiftboss.rules.changes import FileChange
from shiftboss.rules.ownership import Ownership
from shiftboss.rules.scope_judgement import violations_of
from shiftboss.rules.verdicts import (
    Checked,
    is_accepted,
    is_waived,
    judged,
    not_made,
    with_policy,
    with_waivers,
)

CHANGES_MAX: Final = 1000
_MOVED: Final = " any more: it was moved after the claim"


class _Look(NamedTuple):
    """What was found. `done` is None where the commit gave no reason to look further."""

    claim: Claim
    checks: list[Checked]
    done: Done | None = None


class Verifier:
    """Holds mirrors in its folder, and checkouts beside them or where `checkouts` says.
    `at_once` claims are looked at together."""

    def __init__(self, folder: Path, *, checkouts: Path | None = None, at_once: int = 2) -> None:
        self._mirrors = Mirrors(folder / "mirrors")
        self._disposal = Disposal(checkouts or folder / "checkouts")
        self._turns = asyncio.Semaphore(at_once)
        self._opening = asyncio.Lock()
        self._is_open = False

    async def verify(self, job: VerificationJob) -> Verdict:
        """Raises UnknownRepo or EvidenceUnavailable when there is nothing to look at."""
        async with self._turns:
            await self._open()
            started_at = time.monotonic()
            mirror = await self._mirrors.of(job.repo)
            await mirror.refresh()
            look = await self._look(mirror, job)
            duration_ms = round((time.monotonic() - started_at) * 1000)
        return _verdict(job, look, duration_ms)

    async def close(self) -> None:
        """Wait until the last checkout is removed."""
        await self._disposal.close()

    async def _open(self) -> None:
        async with self._opening:
            if not self._is_open:
                await self._disposal.open()
                self._is_open = True

    async def _look(self, mirror: Mirror, job: VerificationJob) -> _Look:
        claim, checked = await look_at_claim(mirror, job)
        if claim.commit is None:
            return _Look(claim, [checked, *_nothing_further(job, "there is no commit")])
        checks = [checked]
        done, ancestry = await _ancestry(mirror, claim, job)
        branch = await check_branch(mirror, claim.commit, job.branch)
        checks += [_waived(ancestry, job), _waived(branch, job)]
        if done is None:
            rest = _nothing_further(job, "not looked at, the ancestry failed")
            return _Look(claim, [*checks, *rest[2:]])
        scope, tests = await asyncio.gather(
            asyncio.to_thread(_check_scope, done, job), check_tests_kept(mirror, done.net, job)
        )
        checks += [_waived(scope, job), _waived(tests, job)]
        checks += await self._criteria(mirror, claim.commit, job, checks)
        if checks[2].holds:
            checks[2] = await _branch_again(mirror, claim.commit, job, checks[2])
        return _Look(claim, checks, done)

    async def _criteria(
        self, mirror: Mirror, commit: str, job: VerificationJob, checks: Sequence[Checked]
    ) -> list[Checked]:
        """Commands take time; they are not run for work that is refused anyway."""
        broken = next((one.result.check for one in checks if not one.holds), None)
        if broken is not None:
            return not_run(job, f"not run, the check {broken} failed")
        ran = await check_criteria(mirror, commit, job, self._disposal)
        return [_waived(with_policy(one, job.policy), job) for one in ran]


async def _ancestry(
    mirror: Mirror, claim: Claim, job: VerificationJob
) -> tuple[Done | None, Checked]:
    checked = await check_ancestry(mirror, claim, job)
    if claim.base is None or not _waived(checked, job).holds:
        return None, checked
    done = await look_at_work(mirror, claim, job)
    if checked.holds and not done.net.files:
        assert claim.commit is not None
        return done, no_change(claim.commit)
    return done, checked


async def _branch_again(
    mirror: Mirror, commit: str, job: VerificationJob, before: Checked
) -> Checked:
    """Somebody may have moved the branch meanwhile."""
    await mirror.refresh(tidy=False)
    now = _waived(await check_branch(mirror, commit, job.branch, _MOVED), job)
    return now if not now.holds else before


def _check_scope(done: Done, job: VerificationJob) -> Checked:
    ownership = Ownership(job.contract, job.policy)
    claimed = [one for one in job.files_touched if not is_waived(job.waivers, "scope", [one])]
    violations = violations_of(done.work, ownership, claimed)
    return judged("scope", violations, f"{len(done.net.files)} files, all within the contract")


def _nothing_further(job: VerificationJob, reason: str) -> list[Checked]:
    return [
        *(not_made("ancestry", reason), not_made("branch", reason)),
        *(not_made("scope", reason), not_made("tests_kept", reason)),
        *not_run(job, reason),
    ]


def _waived(checked: Checked, job: VerificationJob) -> Checked:
    return with_waivers(checked, job.waivers)


def _verdict(job: VerificationJob, look: _Look, duration_ms: int) -> Verdict:
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
        merged_from_target=look.done.span.merged_from_target if look.done is not None else [],
        duration_ms=duration_ms,
    )


def _change(file: FileChange) -> Change:
    """A change of the mode alone is a T."""
    only_mode = file.mode_changed and file.blob == file.old_blob
    return Change(
        path=file.path,
        status="T" if only_mode and file.status == "M" else file.status,
        old_path=file.old_path,
        mode=file.new_mode if file.mode_changed else None,
    )
