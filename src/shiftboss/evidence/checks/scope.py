"""What a task's commits did, apart from what came with a merge of the target branch."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from shiftboss.evidence.checks.commit import ClaimedCommit, tip_of
from shiftboss.evidence.mirror.changes import changes_of, net_change, plain_change
from shiftboss.evidence.mirror.mirror import Mirror
from shiftboss.protocol.verdicts import VerificationJob
from shiftboss.rules.claims.verdicts import Checked, failed, is_waived, judged, passed
from shiftboss.rules.paths.changes import SYMLINK, CommitChange, FileChange, NetChange
from shiftboss.rules.paths.ownership import Ownership
from shiftboss.rules.paths.scope import LINK_BYTES_MAX, CommittedWork, TargetGuard, violations_of

# Whose the commits between the base and the claimed commit are.


# Of commits with a receipt, those that are compared with what the target brought. There are as many
# as tasks that were landed side by side.
TIPS_MAX: Final = 50
_FULL_ID: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


class Span(NamedTuple):
    """`start` is the commit that the result is compared with: the base, or the newest commit of the
    target that was merged. `own` are the commits of the task, the oldest first; `aside` those of
    them that a merge brought. `from_target` are the others, the newest first.
    """

    start: str
    own: list[str]
    aside: frozenset[str]
    from_target: list[str]
    parents: dict[str, list[str]]


async def span_of(mirror: Mirror, claim: ClaimedCommit, target: str | None) -> Span:
    """`target` is the tip of the target branch, if there is one."""
    commit, base = claim.commit, claim.base
    assert commit is not None
    assert base is not None
    parents, outside = await asyncio.gather(
        _with_parents(mirror, commit, base),
        _outside_of(mirror, commit, [base, target]) if target is not None else _nothing(),
    )
    if not outside:
        # There is no target, or all of it is in the target. It has to keep the contract like any
        # other work then: whoever can move the target could hide everything there.
        return Span(base, list(parents), _aside(parents, commit), [], parents)
    from_target = [one for one in reversed(parents) if one not in outside]
    own = [one for one in parents if one in outside]
    start = base
    if from_target:
        assert target is not None
        meeting = await _meeting(mirror, target, commit)
        if meeting is not None and await mirror.is_ancestor(base, meeting):
            start = meeting
    aside = _aside({one: parents[one] for one in own}, commit)
    return Span(start, own, aside, from_target, parents)


async def unaccounted_changes(
    mirror: Mirror, claim: ClaimedCommit, job: VerificationJob, span: Span
) -> list[CommitChange]:
    """What commits of the target did that neither were there at spawn nor have a receipt.

    One by one; and what the merged state holds that neither the base has nor any of the others. A
    merge can take the side that it likes, and shows no change of its own.
    """
    assert claim.base is not None
    unaccounted = await _unaccounted(mirror, claim, job, span)
    if not unaccounted:
        return []
    changes = await changes_of(
        mirror, [one for one in reversed(span.from_target) if one in unaccounted]
    )
    if span.start == claim.base:
        return changes
    accounted = [one for one in span.from_target if one not in unaccounted]
    explained = await _states(mirror, claim.base, _tips(accounted, span.parents)[:TIPS_MAX])
    return changes + [
        CommitChange(span.start, True, file)
        for file in await plain_change(mirror, claim.base, span.start)
        if (file.path, file.new_mode, file.blob) not in explained
    ]


async def check_target(
    mirror: Mirror, claim: ClaimedCommit, span: Span, target: str | None
) -> Checked:
    """What was taken for the target's has to be there still when all is over."""
    assert claim.commit is not None
    gone = span.from_target
    tip = await tip_of(mirror, target) if gone else None
    if tip is not None:
        outside = await _outside_of(mirror, claim.commit, [claim.base, tip])
        gone = [one for one in gone if one in outside]
    if not gone:
        return passed("branch", f"{target} has what came with it")
    return failed(
        "branch",
        f"{target} does not have the commit {gone[0][:12]} any more: it was moved after the claim",
        f"leave {target} as it is until the verdict, and claim again",
        gone[0],
    )


async def _unaccounted(
    mirror: Mirror, claim: ClaimedCommit, job: VerificationJob, span: Span
) -> frozenset[str]:
    commit = claim.commit
    assert commit is not None
    named = [one for one in (job.target_base, *job.accounted_commits) if one is not None]
    named = [one for one in dict.fromkeys(named) if _FULL_ID.fullmatch(one)]
    found = await mirror.look_up(named) if named else []
    known = [one.id for one in found if one is not None and one.kind == "commit"]
    outside = await _outside_of(mirror, commit, [claim.base, *known])
    if commit not in outside:
        # The claimed commit has a receipt itself, or is part of one. That says nothing about the
        # target.
        before = [one for one in known if one in span.parents and one != commit]
        outside = await _outside_of(mirror, commit, [claim.base, *before])
    return outside.intersection(span.from_target)


async def _with_parents(mirror: Mirror, commit: str, base: str) -> dict[str, list[str]]:
    """Of each commit that the base does not have, the oldest first."""
    lines = await mirror.output(
        "the commits", "rev-list", "--topo-order", "--reverse", "--parents", commit, f"^{base}"
    )
    return {one: rest for one, *rest in (line.split() for line in lines.decode().splitlines())}


async def _outside_of(mirror: Mirror, commit: str, others: Iterable[str | None]) -> frozenset[str]:
    """The commits in the history of one that none of the others has."""
    left_out = [f"^{one}" for one in others if one is not None]
    lines = "".join(f"{one}\n" for one in (commit, *left_out)).encode()
    listed = await mirror.output("the commits", "rev-list", "--stdin", stdin=lines)
    return frozenset(listed.decode().split())


async def _nothing() -> frozenset[str]:
    return frozenset()


async def _meeting(mirror: Mirror, target: str, commit: str) -> str | None:
    """The newest commit that both have. None: they have nothing in common."""
    said = await mirror.run(["merge-base", target, commit])
    return said.out.decode().strip() or None


async def _states(mirror: Mirror, base: str, commits: Iterable[str]) -> set[tuple[str, str, str]]:
    """The paths in which they differ from the base, each with what is there."""
    return {
        (file.path, file.new_mode, file.blob)
        for commit in commits
        for file in await plain_change(mirror, base, commit)
    }


def _tips(commits: Sequence[str], parents: dict[str, list[str]]) -> list[str]:
    """Those that no other of them descends from directly."""
    below = {parent for one in commits for parent in parents[one]}
    return [one for one in commits if one not in below]


def _aside(parents: dict[str, list[str]], commit: str) -> frozenset[str]:
    """The commits that are not on the way from parent to first parent."""
    aside = set(parents)
    here = commit
    while here in parents:
        aside.discard(here)
        here = next(iter(parents[here]), "")
    return frozenset(aside)


class Done(NamedTuple):
    """`target` is the commit that the target branch was at. `unaccounted` are changes that came
    with it and that no receipt accounts for; `base_names` are only looked up where there are any.
    """

    span: Span
    net: NetChange
    work: CommittedWork
    target: str | None
    unaccounted: list[CommitChange]
    base_names: frozenset[str]


async def look_at_work(mirror: Mirror, claim: ClaimedCommit, job: VerificationJob) -> Done:
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
    work = CommittedWork(net.files, own, await _links(mirror, net.files), names, aside)
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
