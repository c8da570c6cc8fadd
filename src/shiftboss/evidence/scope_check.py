"""What a task's commits did, apart from what came with a merge of the target branch."""

from __future__ import annotations

from typing import Final, NamedTuple

from shiftboss.evidence.changes import changes_of, net_change
from shiftboss.evidence.commit_checks import Claim
from shiftboss.evidence.mirror import Mirror
from shiftboss.protocol.verdict import VerificationJob
from shiftboss.rules.changes import SYMLINK, FileChange, NetChange
from shiftboss.rules.scope_judgement import LINK_BYTES_MAX, Work

MERGES_MAX: Final = 1000


class Span(NamedTuple):
    """`start` is the commit that the result is compared with: the base, or the newest commit of the
    target that was merged. `own` are the commits of the task, the oldest first."""

    start: str
    own: list[str]
    merged_from_target: list[str]


class Done(NamedTuple):
    span: Span
    net: NetChange
    work: Work


async def look_at_work(mirror: Mirror, claim: Claim, job: VerificationJob) -> Done:
    assert claim.commit is not None
    names = await _names(mirror, claim.commit)
    span = await _span(mirror, claim, job)
    net = await net_change(mirror, span.start, claim.commit)
    own = await changes_of(mirror, span.own)
    return Done(span, net, Work(net.files, own, await _links(mirror, net.files), names))


async def _span(mirror: Mirror, claim: Claim, job: VerificationJob) -> Span:
    commit, base = claim.commit, claim.base
    assert commit is not None
    assert base is not None
    target = claim.target if job.target != job.branch else None
    start = base
    if target is not None:
        meeting = await _meeting(mirror, target, commit)
        if meeting == commit:
            # All of it is in the target. It has to keep the contract like any other work: whoever
            # can move the target could hide everything there.
            target = None
        elif meeting is not None and await mirror.is_ancestor(base, meeting):
            start = meeting
    left_out = [f"^{base}", *([f"^{target}"] if target is not None else [])]
    lines = await mirror.output(
        "the commits", "rev-list", "--topo-order", "--reverse", "--parents", commit, *left_out
    )
    parents = {one: rest for one, *rest in (line.split() for line in lines.decode().splitlines())}
    merged = [
        parent
        for those in parents.values()
        if len(those) > 1
        for parent in those
        if parent not in parents
    ]
    return Span(start, list(parents), await _newer(mirror, merged[:MERGES_MAX], base))


async def _meeting(mirror: Mirror, target: str, commit: str) -> str | None:
    """The newest commit that both have. None: they have nothing in common."""
    said = await mirror.run(["merge-base", target, commit])
    return said.out.decode().strip() or None


async def _newer(mirror: Mirror, commits: list[str], base: str) -> list[str]:
    """Those that the base does not have."""
    if not commits:
        return []
    lines = "".join(f"{one}\n" for one in [*commits, f"^{base}"]).encode()
    listed = await mirror.output("the commits", "rev-list", "--stdin", stdin=lines)
    newer = set(listed.decode().split())
    return [one for one in dict.fromkeys(commits) if one in newer]


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
