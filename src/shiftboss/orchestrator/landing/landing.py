"""Landing: accepted work goes to the target branch, once, and never untested."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, NamedTuple

from shiftboss.errors import TreeUnavailable
from shiftboss.orchestrator.git.repository import (
    GitRepo,
    break_stale_locks,
    forget_landings,
    landing_ref,
)
from shiftboss.orchestrator.landing.merge_check import MergeCheck
from shiftboss.orchestrator.landing.target_branch import TargetBlocked, TargetBranch
from shiftboss.orchestrator.worktrees.worktrees import drop_landed_branch
from shiftboss.protocol.handoffs import VerificationPolicy
from shiftboss.protocol.verdicts import Waiver
from shiftboss.system.file_locks import turn

# Who else changed what a piece of work cannot be merged with.


OTHERS_MAX: Final = 20
_FORMAT: Final = (
    "%H%x1f%s%x1f%(trailers:key=Shiftboss-Task,valueonly,separator=%x20)"
    "%x1f%(trailers:key=Shiftboss-Receipt,valueonly,separator=%x20)"
)


class LandedWork(NamedTuple):
    """`commit` is the receipt's."""

    commit: str
    bead_id: str
    receipt_id: str | None


class ConflictAuthors(NamedTuple):
    """A commit of the target that the work does not have and that changed a file in conflict.
    Task and receipt are None where it came there otherwise."""

    commit: str
    subject: str
    task: str | None
    receipt: str | None


async def other_side(
    repo: GitRepo, ours: str, theirs: str, paths: Sequence[str], landed: Sequence[LandedWork]
) -> list[ConflictAuthors]:
    """The newest first. Merges of landed work say whose it is; work that was landed without a merge
    is known by the commits that its receipt's commit has."""
    said = await repo.text(
        "the other side",
        *("log", "-z", "--first-parent", f"--max-count={OTHERS_MAX}", f"--format={_FORMAT}"),
        *(f"{theirs}..{ours}", "--", *paths),
    )
    found = [ConflictAuthors(*_words(one)) for one in said.split("\0") if one]
    if all(one.task is not None for one in found):
        return found
    new = set((await repo.text("the other side", "rev-list", f"{theirs}..{ours}")).split())
    known = [one for one in landed if one.commit in new]
    return [one if one.task is not None else await _named(repo, one, known) for one in found]


async def _named(
    repo: GitRepo, side: ConflictAuthors, landed: Sequence[LandedWork]
) -> ConflictAuthors:
    for work in landed:
        if await repo.has(side.commit, work.commit):
            return side._replace(task=work.bead_id, receipt=work.receipt_id)
    return side


def _words(line: str) -> tuple[str, str, str | None, str | None]:
    commit, subject, task, receipt = line.split("\x1f")
    return commit, subject, task.strip() or None, receipt.strip() or None


# Somebody who commits to the target all the time is outrun, or told so.
_TRIES: Final = 10


@dataclass(frozen=True, slots=True)
class AcceptedWork:
    """Accepted work. `commit` is the receipt's; `branch` is dropped when it has landed. `criteria`,
    `policy` and `waivers` are those that it was accepted by; `landed` is what has landed before,
    the oldest first, to name the other side of a conflict."""

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


class Landed(NamedTuple):
    """`commit` is on the target and holds the work. `warning` says what is not as it should be in
    the checkout of whoever has the target checked out."""

    commit: str
    how: Literal["already", "fast_forward", "merge"]
    warning: str = ""


class LandingConflict(NamedTuple):
    """`ours` is the tip of the target, `theirs` the work."""

    paths: list[str]
    ours: str
    theirs: str
    others: list[ConflictAuthors]


class LandingRefused(NamedTuple):
    """`check` is the criterion or command that failed on the merged tree, and the work has to
    change. None: something else is in the way, `hint` says what to do, and then it can land."""

    reason: str
    hint: str
    check: str | None = None
    output_tail: str = ""
    # The tip of the target that the work was merged with.
    ours: str | None = None


class Landing:
    """`folder` is for checkouts of merged commits, best outside of any repository; several runs may
    share it. Of one repository, one piece of work lands at a time."""

    def __init__(self, folder: Path) -> None:
        self._check = MergeCheck(folder)

    async def land(self, wanted: AcceptedWork) -> Landed | LandingConflict | LandingRefused:
        """As often as it is called, the work lands once.

        Raises UnknownRepo, TreeUnavailable or EvidenceUnavailable when nobody can tell.
        """
        repo = await GitRepo.at(wanted.repo)
        async with turn(repo.common / "shiftboss", "landing") as held:
            branches = [f"refs/heads/{wanted.branch}"] if wanted.branch else []
            await break_stale_locks(repo, [landing_ref(wanted.bead_id), *branches])
            target = TargetBranch(repo, wanted.target, held)
            await target.mend()
            for _ in range(_TRIES):
                outcome = await self._try(repo, target, wanted)
                if outcome is not None:
                    break
            else:
                return LandingRefused(
                    f"{wanted.target} moved on {_TRIES} times while the work was tested",
                    f"land it again when nobody commits to {wanted.target}",
                )
            await forget_landings(repo)
        if isinstance(outcome, Landed) and wanted.branch is not None:
            await drop_landed_branch(repo, wanted.branch, wanted.target)
        return outcome

    async def close(self) -> None:
        await self._check.close()

    async def _try(
        self, repo: GitRepo, target: TargetBranch, wanted: AcceptedWork
    ) -> Landed | LandingConflict | LandingRefused | None:
        """None: the target has moved meanwhile."""
        if wanted.branch and (other := await repo.other_name_of(wanted.branch)):
            return LandingRefused(
                f"the branch {wanted.branch} of {wanted.bead_id} is only another name of {other}",
                f"look at {other}, then git symbolic-ref --delete refs/heads/{wanted.branch}",
            )
        tip, commit = await target.tip(), await repo.commit_of(wanted.commit)
        if tip is None:
            return LandingRefused(
                f"there is no branch {wanted.target} in {wanted.repo}",
                f"make it: git branch {wanted.target}",
            )
        if commit is None:
            return LandingRefused(
                f"the accepted commit {wanted.commit} is not in {wanted.repo}",
                "bring it back, from a clone or the reflog",
            )
        if await repo.has(commit, tip):
            return Landed(tip, "already")
        is_ahead = await repo.has(tip, commit)
        new = commit if is_ahead else await self._merged(repo, tip, commit, wanted)
        if not isinstance(new, str):
            return new
        moved = await target.move(tip, new, f"shiftboss: land {wanted.bead_id}")
        if isinstance(moved, TargetBlocked):
            return LandingRefused(moved.reason, moved.hint)
        if moved is None:
            return None
        return Landed(new, "fast_forward" if is_ahead else "merge", moved.warning)

    async def _merged(
        self, repo: GitRepo, tip: str, commit: str, wanted: AcceptedWork
    ) -> str | LandingConflict | LandingRefused:
        """A merge that is on no branch yet, and passes."""
        merged = await repo.merge(tip, commit)
        if merged.paths:
            others = await other_side(repo, tip, commit, merged.paths, wanted.landed)
            return LandingConflict(merged.paths, tip, commit, others)
        new = await repo.commit_tree(merged.tree, [tip, commit], _message(wanted))
        if not await repo.is_merge_of(new, merged.tree, [tip, commit]):
            raise TreeUnavailable(
                f"the merge {new} in {wanted.repo} is not what was merged",
                hint="look at the repository: git fsck",
            )
        if merged.tree == await repo.tree_of(commit):
            return new  # what was verified is what lands
        await repo.hold(landing_ref(wanted.bead_id), new)
        failed = await self._check.failing(
            repo, new, wanted.bead_id, wanted.criteria, wanted.policy, wanted.waivers
        )
        if failed is None:
            return new
        return LandingRefused(
            f"merged with {wanted.target} at {tip[:12]}, it fails: "
            f"{failed.subject or failed.check}: {failed.message}",
            f"merge {wanted.target} into the work and make it pass again",
            failed.subject or failed.check,
            failed.output_tail or "",
            tip,
        )


def _message(wanted: AcceptedWork) -> str:
    title = " ".join(wanted.title.split())
    trailers = [f"Shiftboss-Task: {wanted.bead_id}"]
    if wanted.receipt_id is not None:
        trailers.append(f"Shiftboss-Receipt: {wanted.receipt_id}")
    return f"Land {wanted.bead_id}: {title}\n\n" + "\n".join(trailers) + "\n"
