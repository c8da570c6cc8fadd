"""The checks of the claimed commit: it exists, descends from the base, and is on the branch."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from shiftboss.evidence.mirror.mirror import BRANCHES, Mirror
from shiftboss.evidence.mirror.objects import GitObject
from shiftboss.protocol.claims.verdicts import VerificationJob
from shiftboss.rules.claims.verdicts import CheckOutcome, failed, passed
from shiftboss.rules.paths.branch_names import is_branch_name

_COMMIT_ID: Final = re.compile(r"[0-9a-f]{7,40}")


class ClaimedCommit(NamedTuple):
    """The commits of a job, resolved in the mirror.

    `commit` and `base` are None if there is no such commit; `tip` and `target` if there is no such
    branch.
    """

    commit: str | None
    tree: str | None
    base: str | None
    base_tree: str | None
    tip: str | None
    target: str | None


async def resolve_claim(mirror: Mirror, job: VerificationJob) -> tuple[ClaimedCommit, CheckOutcome]:
    """Resolve the names in the job, and check the commit."""
    claimed = _claimed(job)
    base = job.base_commit if _COMMIT_ID.fullmatch(job.base_commit) else None
    names = [
        *(claimed, _tree(claimed), base, _tree(base)),
        *(_branch_ref(job.branch), _branch_ref(job.target)),
    ]
    objects = await _look_up(mirror, names)
    if base is not None and objects[2] is None:
        await mirror.hold(base)
        objects = await _look_up(mirror, names)
    commit = objects[0]
    unreachable_kind = None
    if commit is None and claimed is not None and claimed == job.commit:
        unreachable_kind = await mirror.kind_at_source(claimed)
    kinds = ("commit", "tree", "commit", "tree", "commit", "commit")
    claim = ClaimedCommit(
        *(_id(resolved, kind) for resolved, kind in zip(objects, kinds, strict=True))
    )
    checked = _check_commit(job, commit, unreachable_kind)
    if commit is None and unreachable_kind is None and claimed is not None and mirror.is_local:
        # Another machine may have a newer copy under the same path.
        checked = checked._replace(missing=checked.result.message)
    return claim, checked


async def check_ancestry(
    mirror: Mirror, claim: ClaimedCommit, job: VerificationJob
) -> CheckOutcome:
    base, commit = job.base_commit, claim.commit
    if claim.base is None:
        checked = failed(
            "ancestry",
            f"the base {base[:12]} is not in the repository",
            "restore it: the work must descend from the base of the task",
        )
        return checked._replace(missing=checked.result.message if mirror.is_local else None)
    assert commit is not None
    if commit == claim.base and only_reads(job):
        return passed("ancestry", "is the base itself: nothing was changed")
    if commit == claim.base:
        return failed(
            "ancestry", "the commit is the base itself", "commit the work and claim that commit"
        )
    if not await mirror.is_ancestor(claim.base, commit):
        return failed(
            "ancestry",
            f"the commit {commit[:12]} does not descend from the base {base[:12]}",
            f"rebase the work onto the base: git rebase {base[:12]}",
            commit,
        )
    if claim.tree == claim.base_tree:
        return check_change(claim, job, has_changed=False)
    return passed("ancestry", f"descends from {base[:12]}")


def only_reads(job: VerificationJob) -> bool:
    """A task that owns no files must leave everything as it was."""
    return not job.contract.files_owned


def check_change(claim: ClaimedCommit, job: VerificationJob, *, has_changed: bool) -> CheckOutcome:
    """The check "ancestry" of a commit that descends from the base: it changes something, unless
    the task only reads."""
    commit = claim.commit
    assert commit is not None
    if has_changed != only_reads(job):
        changed = "" if has_changed else " and changes nothing"
        return passed("ancestry", f"descends from {job.base_commit[:12]}{changed}")
    if has_changed:
        return failed(
            "ancestry",
            f"the commit {commit[:12]} changes files, but the task owns none: it only reads",
            f"claim the base itself: commit {job.base_commit}",
            commit,
        )
    return failed(
        "ancestry",
        f"no change: the commit {commit[:12]} has the same files as the base",
        "commit the work and claim that commit",
        commit,
    )


async def check_branch(
    mirror: Mirror, commit: str, branch: str | None, tip: str | None, moved: str = ""
) -> CheckOutcome:
    """`tip` is that of the branch. `moved` is appended to the message of the second check, after
    the criteria were run."""
    where = f"the branch {branch}" if branch is not None else "a branch"
    if branch is not None and not is_branch_name(branch):
        return failed("branch", f"{branch!r} is not a branch name", "name the branch of the commit")
    if await _is_on(mirror, commit, branch, tip):
        return passed("branch", f"is on {where}")
    return failed(
        "branch",
        f"the commit {commit[:12]} is not on {where}{moved}",
        "put the commit on the branch, keep it there until the verdict, and claim it again",
        commit,
    )


async def tip_of(mirror: Mirror, branch: str | None) -> str | None:
    ref = _branch_ref(branch)
    return _id((await mirror.look_up([ref]))[0], "commit") if ref is not None else None


async def _is_on(mirror: Mirror, commit: str, branch: str | None, tip: str | None) -> bool:
    if branch is None:
        arguments = ("for-each-ref", "--count=1", f"--contains={commit}", BRANCHES)
        return bool(await mirror.output("the branches", *arguments))
    return tip is not None and (tip == commit or await mirror.is_ancestor(commit, tip))


def _check_commit(
    job: VerificationJob, resolved: GitObject | None, unreachable_kind: str | None
) -> CheckOutcome:
    """`unreachable_kind`: the kind of an object that the repository has, but on no branch."""
    named = job.commit if job.commit is not None else f"the branch {job.branch}"
    hint = "claim the full id of the commit: git rev-parse HEAD"
    if job.commit is None and job.branch is None:
        return failed("commit", "neither a commit nor a branch was claimed", hint)
    if job.commit is not None and not _COMMIT_ID.fullmatch(job.commit):
        return failed("commit", f"{job.commit!r} is not a commit id", hint)
    if resolved is None and unreachable_kind is None:
        return failed("commit", f"{named} is not in the repository", hint)
    if resolved is None and unreachable_kind == "commit":
        return failed("commit", f"{named} is on no branch", "put it on the branch of the task")
    if resolved is None:
        return failed("commit", f"{named} is the id of a {unreachable_kind}, not of a commit", hint)
    if resolved.kind == "ambiguous":
        return failed("commit", f"{named} is ambiguous: several ids begin with it", hint)
    if resolved.kind != "commit":
        return failed("commit", f"{named} is the id of a {resolved.kind}, not of a commit", hint)
    return passed("commit", f"is {resolved.id}")


def _claimed(job: VerificationJob) -> str | None:
    if job.commit is None:
        return _branch_ref(job.branch)
    return job.commit if _COMMIT_ID.fullmatch(job.commit) else None


def _tree(name: str | None) -> str | None:
    return f"{name}^{{tree}}" if name is not None else None


def _branch_ref(branch: str | None) -> str | None:
    return BRANCHES + branch if branch is not None and is_branch_name(branch) else None


async def _look_up(mirror: Mirror, names: list[str | None]) -> list[GitObject | None]:
    objects = iter(await mirror.look_up([name for name in names if name is not None]))
    return [None if name is None else next(objects) for name in names]


def _id(resolved: GitObject | None, kind: str) -> str | None:
    return resolved.id if resolved is not None and resolved.kind == kind else None
