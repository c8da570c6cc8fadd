"""What a task's commits did, apart from what came with a merge of the target branch."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from shiftboss.evidence.changes import changes_of, net_change
from shiftboss.evidence.commit_checks import Claim
from shiftboss.evidence.mirror import Mirror
from shiftboss.evidence.spans import Span, span_of, unaccounted_changes
from shiftboss.protocol.verdicts import VerificationJob
from shiftboss.rules.claims.verdicts import Checked, is_waived, judged
from shiftboss.rules.paths.changes import SYMLINK, CommitChange, FileChange, NetChange
from shiftboss.rules.paths.ownership import Ownership
from shiftboss.rules.paths.scope import LINK_BYTES_MAX, TargetGuard, Work, violations_of


class Done(NamedTuple):
    """`target` is the commit that the target branch was at. `unaccounted` are changes that came
    with it and that no receipt accounts for; `base_names` are only looked up where there are any.
    """

    span: Span
    net: NetChange
    work: Work
    target: str | None
    unaccounted: list[CommitChange]
    base_names: frozenset[str]


async def look_at_work(mirror: Mirror, claim: Claim, job: VerificationJob) -> Done:
    assert claim.commit is not None
    assert claim.base is not None
    names = await _names(mirror, claim.commit)
    target = claim.target if job.target != job.branch else None
    span = await span_of(mirror, claim, target)
    net = await net_change(mirror, span.start, claim.commit)
    own = await changes_of(mirror, span.own)
    unaccounted: list[CommitChange] = []
    if span.from_target:
        unaccounted = await unaccounted_changes(mirror, claim, job, span)
    base_names = await _names(mirror, claim.base) if unaccounted else []
    aside = span.aside if target is None else frozenset[str]()
    work = Work(net.files, own, await _links(mirror, net.files), names, aside)
    return Done(span, net, work, target, unaccounted, frozenset(base_names))


async def check_scope(done: Done, job: VerificationJob) -> Checked:
    return await asyncio.to_thread(_check_scope, done, job)


def _check_scope(done: Done, job: VerificationJob) -> Checked:
    contract = job.contract
    ownership = Ownership(contract.files_owned, contract.files_readonly, job.policy.generated)
    claimed = [one for one in job.files_touched if not is_waived(job.waivers, "scope", [one])]
    violations = violations_of(done.work, ownership, claimed)
    if done.unaccounted:
        assert job.target is not None
        guard = TargetGuard(job.contract, job.policy, done.base_names)
        named = {one.path for one in violations}
        brought = guard.violations(job.target, done.unaccounted)
        violations += [one for one in brought if one.path not in named]
    count = len(done.net.files)
    files = "1 file" if count == 1 else f"{count} files, all"
    return judged("scope", violations, f"{files} within the contract")


async def _links(mirror: Mirror, files: list[FileChange]) -> dict[str, bytes]:
    blobs = [one.blob for one in files if one.new_mode == SYMLINK]
    return await mirror.read(blobs, LINK_BYTES_MAX) if blobs else {}


async def _names(mirror: Mirror, commit: str) -> list[str]:
    """All files of the commit.

    A tree can be made that unfolds to billions of files. This is where it is noticed: of all the
    ways to look at it, only a list comes out bit by bit.
    """
    listed = await mirror.output("the files", "ls-tree", "-r", "-z", "--name-only", commit)
    return [raw.decode(errors="backslashreplace") for raw in listed.split(b"\0") if raw]
