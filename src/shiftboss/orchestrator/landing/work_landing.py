"""Lands accepted work on its target branch: once, and never without testing the merge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, NamedTuple

from shiftboss.errors import TreeUnavailable
from shiftboss.orchestrator.git.private_refs import (
    break_stale_locks,
    delete_landed_branch,
    delete_landing_refs,
    landing_ref,
    squashed_ref,
)
from shiftboss.orchestrator.git.repository import GitRepo, find_squash, merge_onto
from shiftboss.orchestrator.landing.merge_check import MergeCheck
from shiftboss.orchestrator.landing.target_branch import TargetBlocked, TargetBranch
from shiftboss.protocol.claims.verdicts import Waiver
from shiftboss.protocol.handoff_requests import Landing
from shiftboss.protocol.handoffs import VerificationPolicy
from shiftboss.rules.runs.merge_tasks import merge_tasks_of
from shiftboss.rules.runs.squash import squash_message
from shiftboss.system.file_locks import folder_lock

CONFLICTING_COMMITS_MAX: Final = 20
# How often a landing starts over because somebody committed to the target in the meantime.
_TRIES: Final = 10
_FORMAT: Final = (
    "%H%x1f%s%x1f%(trailers:key=Shiftboss-Task,valueonly,separator=%x20)"
    "%x1f%(trailers:key=Shiftboss-Receipt,valueonly,separator=%x20)"
)


class LandedWork(NamedTuple):
    """Work that has landed earlier. `commit` is the one in its receipt."""

    commit: str
    bead_id: str
    receipt_id: str | None


@dataclass(frozen=True, slots=True)
class AcceptedWork:
    """Work to land. `commit` is the one in the receipt; `branch` is deleted when it has landed.
    `criteria`, `policy` and `waivers` are those that it was accepted with. `landed` is earlier
    work, the oldest first; it is used to name the other tasks of a conflict, and to find the
    merge tasks of this one. With `squash`, the target gets one commit instead of the commits of the
    work."""

    bead_id: str
    title: str
    repo: Path
    commit: str
    target: str
    criteria: Sequence[str]
    policy: VerificationPolicy
    receipt_id: str | None = None
    branch: str | None = None
    waivers: Sequence[Waiver] = ()
    landed: Sequence[LandedWork] = ()
    swarm_id: str = ""
    landing: Landing = "merge"


class Landed(NamedTuple):
    """`commit` is on the target and contains the work. `warning` says what is wrong with the files
    in the user's checkout of the target."""

    commit: str
    how: Literal["already", "fast_forward", "merge", "squash"]
    warning: str = ""


class ConflictingCommit(NamedTuple):
    """A commit on the target that the work does not have and that changed a file in conflict. Task
    and receipt are None if it did not come from a task."""

    commit: str
    subject: str
    task: str | None
    receipt: str | None


class LandingConflict(NamedTuple):
    """`ours` is the tip of the target, `theirs` the work."""

    paths: list[str]
    ours: str
    theirs: str
    others: list[ConflictingCommit]


class LandingRefused(NamedTuple):
    """`check` is the criterion or command that failed on the merged tree: the work has to change.
    If it is None, the problem is elsewhere; the work can land after the user has followed `hint`.
    `ours` is the tip of the target that the work was merged with."""

    reason: str
    hint: str
    check: str | None = None
    output_tail: str = ""
    ours: str | None = None


class WorkLanding:
    """`folder` is for checkouts of merged commits, outside of any repository; several runs can
    share it. `state` is the state folder of the run, which no merged code may see. In each
    repository, one piece of work lands at a time."""

    def __init__(self, folder: Path, state: Path) -> None:
        self._check = MergeCheck(folder, state)

    async def land(self, work: AcceptedWork) -> Landed | LandingConflict | LandingRefused:
        """Idempotent: work that has landed is not landed again.

        Raises UnknownRepo, TreeUnavailable or EvidenceUnavailable if git or the check cannot run.
        """
        repo = await GitRepo.at(work.repo)
        async with folder_lock(repo.common / "shiftboss", "landing") as lock:
            branches = [f"refs/heads/{work.branch}"] if work.branch else []
            await break_stale_locks(repo, [landing_ref(work.bead_id), *branches])
            target = TargetBranch(repo, work.target, lock)
            await target.repair()
            for _ in range(_TRIES):
                outcome = await self._try(repo, target, work)
                if outcome is not None:
                    break
            else:
                return LandingRefused(
                    f"{work.target} moved {_TRIES} times while the work was tested",
                    f"land it again when there are no commits to {work.target}",
                )
            await delete_landing_refs(repo)
        if isinstance(outcome, Landed) and work.branch is not None:
            squashed = work.commit if work.landing == "squash" else None
            await delete_landed_branch(repo, work.branch, work.target, squashed)
        return outcome

    async def has_landed(
        self,
        folder: Path,
        target: str,
        commit: str,
        landing: Landing,
        merges: Sequence[str] = (),
    ) -> bool:
        """Whether the target has the commit, or its squash, or that of one of the merge tasks."""
        repo = await GitRepo.at(folder)
        tip, work = await repo.commits_of(f"refs/heads/{target}", commit)
        if tip is None or work is None:
            return False
        return await _landed_as(repo, tip, work, landing, merges) is not None

    async def close(self) -> None:
        await self._check.close()

    async def _try(
        self, repo: GitRepo, target: TargetBranch, work: AcceptedWork
    ) -> Landed | LandingConflict | LandingRefused | None:
        """None if the target has moved in the meantime."""
        if work.branch and (ref := await repo.symbolic_target(work.branch)):
            return LandingRefused(
                f"the branch {work.branch} of {work.bead_id} is a symbolic ref to {ref}",
                f"check {ref}, then run git symbolic-ref --delete refs/heads/{work.branch}",
            )
        tip, commit = await repo.commits_of(f"refs/heads/{work.target}", work.commit)
        if tip is None:
            return LandingRefused(
                f"there is no branch {work.target} in {work.repo}",
                f"create it: git branch {work.target}",
            )
        if commit is None:
            return LandingRefused(
                f"the accepted commit {work.commit} is not in {work.repo}",
                "restore it from a clone or from the reflog",
            )
        merges = merges_of(work.bead_id, work.landed)
        landed = await _landed_as(repo, tip, commit, work.landing, merges)
        if landed is not None:
            await _keep_squashed(repo, commit, work)
            return Landed(landed, "already")
        is_ahead = await repo.is_ancestor(tip, commit)
        new = await self._prepare(repo, tip, commit, work, is_ahead=is_ahead)
        if not isinstance(new, str):
            return new
        await _keep_squashed(repo, commit, work)
        moved = await target.move(tip, new, f"shiftboss: land {work.bead_id}")
        if isinstance(moved, TargetBlocked):
            return LandingRefused(moved.reason, moved.hint)
        if moved is None:
            return None
        if work.landing == "squash":
            return Landed(new, "squash", moved.warning)
        return Landed(new, "fast_forward" if is_ahead else "merge", moved.warning)

    async def _prepare(
        self, repo: GitRepo, tip: str, commit: str, work: AcceptedWork, *, is_ahead: bool
    ) -> str | LandingConflict | LandingRefused:
        """The commit that the target moves to. It is verified, and on no branch yet."""
        if not is_ahead:
            return await self._merge(repo, tip, commit, work)
        if work.landing == "merge":
            return commit
        return await _commit(repo, await repo.tree_of(commit), tip, commit, work)

    async def _merge(
        self, repo: GitRepo, tip: str, commit: str, work: AcceptedWork
    ) -> str | LandingConflict | LandingRefused:
        """A merge or squash commit that passes the criteria and is on no branch yet."""
        merge = merge_onto if work.landing == "squash" else GitRepo.merge
        merged = await merge(repo, tip, commit)
        if merged.paths:
            others = await _conflicting_commits(repo, tip, commit, merged.paths, work.landed)
            return LandingConflict(merged.paths, tip, commit, others)
        new = await _commit(repo, merged.tree, tip, commit, work)
        if merged.tree == await repo.tree_of(commit):
            return new  # exactly these files were verified
        await repo.set_private_ref(landing_ref(work.bead_id), new)
        failed = await self._check.first_failure(
            repo, new, work.bead_id, work.criteria, work.policy, work.waivers
        )
        if failed is None:
            return new
        return LandingRefused(
            f"it fails after the merge with {work.target} at {tip[:12]}: "
            f"{failed.subject or failed.check}: {failed.message}",
            f"merge {work.target} into the work and make it pass again",
            failed.subject or failed.check,
            failed.output_tail or "",
            tip,
        )


async def _keep_squashed(repo: GitRepo, commit: str, work: AcceptedWork) -> None:
    """Keep the commit that the receipt names: a squash leaves it on no branch. It is kept before
    the target moves, since the run may be killed in between."""
    if work.landing == "squash":
        await repo.set_private_ref(squashed_ref(work.swarm_id, work.bead_id), commit)


def merges_of(bead_id: str, landed: Sequence[LandedWork]) -> list[str]:
    """The commits of the merge tasks of a task that have landed."""
    names = merge_tasks_of(bead_id)
    return [work.commit for work in landed if work.bead_id in names]


async def _landed_as(
    repo: GitRepo, tip: str, work: str, landing: Landing, merges: Sequence[str]
) -> str | None:
    """The commit on the target that contains the work: the tip, its squash, or the squash of a
    merge task."""
    if await repo.is_ancestor(work, tip):
        return tip
    return await find_squash(repo, tip, work, merges) if landing == "squash" else None


async def _commit(repo: GitRepo, tree: str, tip: str, commit: str, work: AcceptedWork) -> str:
    """A merge of the work with the tip, or with `squash` one commit on the tip."""
    is_squash = work.landing == "squash"
    parents = [tip] if is_squash else [tip, commit]
    new = await repo.commit_tree(
        tree, parents, _squash_message(work) if is_squash else _message(work)
    )
    if not await repo.is_merge_of(new, tree, parents):
        raise TreeUnavailable(
            f"git returned the wrong content for the merge {new} in {work.repo}",
            hint="check the repository: git fsck",
        )
    return new


def _squash_message(work: AcceptedWork) -> str:
    return squash_message(
        work.title,
        bead_id=work.bead_id,
        swarm_id=work.swarm_id,
        receipt_id=work.receipt_id,
        commit=work.commit,
    )


def _message(work: AcceptedWork) -> str:
    title = " ".join(work.title.split())
    trailers = [f"Shiftboss-Task: {work.bead_id}"]
    if work.receipt_id is not None:
        trailers.append(f"Shiftboss-Receipt: {work.receipt_id}")
    return f"Land {work.bead_id}: {title}\n\n" + "\n".join(trailers) + "\n"


async def _conflicting_commits(
    repo: GitRepo, ours: str, theirs: str, paths: Sequence[str], landed: Sequence[LandedWork]
) -> list[ConflictingCommit]:
    """The newest first. A merge made by a landing names its task. For work that landed by a
    fast-forward, the commit in its receipt contains the conflicting commit."""
    output = await repo.text(
        "the conflicting commits",
        *("log", "-z", "--first-parent", f"--max-count={CONFLICTING_COMMITS_MAX}"),
        *(f"--format={_FORMAT}", f"{theirs}..{ours}", "--", *paths),
    )
    commits = [_parse_commit(entry) for entry in output.split("\0") if entry]
    if all(commit.task is not None for commit in commits):
        return commits
    output = await repo.text("the conflicting commits", "rev-list", f"{theirs}..{ours}")
    new = set(output.split())
    candidates = [work for work in landed if work.commit in new]
    return [
        commit if commit.task is not None else await _with_task(repo, commit, candidates)
        for commit in commits
    ]


def _parse_commit(entry: str) -> ConflictingCommit:
    commit, subject, task, receipt = entry.split("\x1f")
    return ConflictingCommit(commit, subject, task.strip() or None, receipt.strip() or None)


async def _with_task(
    repo: GitRepo, commit: ConflictingCommit, landed: Sequence[LandedWork]
) -> ConflictingCommit:
    for work in landed:
        if await repo.is_ancestor(commit.commit, work.commit):
            return commit._replace(task=work.bead_id, receipt=work.receipt_id)
    return commit
