"""The refs that ended runs have left in the repositories: branches, saved work, landings.

Most of these refs name the task, but not the swarm. If several swarms have a task of the same name
in a repository, a ref may be the work of any of them: it stays until all of them are over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

from shiftboss.errors import ShiftbossError
from shiftboss.orchestrator.attempt.attempt_record import AttemptRecord, attempts_of_run
from shiftboss.orchestrator.git.private_refs import SQUASHED_REFS, landing_ref, squashed_ref
from shiftboss.orchestrator.git.repository import GitRepo
from shiftboss.orchestrator.run.leftover_items import OVER, Fate, Kind, Leftover, fate_of
from shiftboss.orchestrator.worktrees.salvage import salvage_refs

Tasks = Mapping[str, Mapping[str, Any]]


class Holder(NamedTuple):
    """A task that is not over, and the repository in which a run has worked on it: None if that is
    not known yet."""

    swarm_id: str
    bead_id: str
    fate: Fate
    repo: Path | None
    is_live: bool

    def holds(self, swarm_id: str, bead_id: str, fate: Fate, repo: Path, *, all_: bool) -> bool:
        """Whether refs of this task in that swarm may be the work of this one. With `all_`, the
        work of unfinished tasks of ended runs goes as well."""
        if (swarm_id, bead_id) == (self.swarm_id, self.bead_id) or bead_id != self.bead_id:
            return False
        both_go = all_ and not self.is_live and self.fate == fate == "unfinished"
        return self.repo in (None, repo) and not both_go


async def find_holders(
    state: Path, swarm_id: str, tasks: Tasks | None, *, is_live: bool
) -> set[Holder]:
    """The tasks of a run that are not over. If its tasks could not be read, all of them may have
    been accepted."""
    holders = set()
    for attempt in await asyncio.to_thread(attempts_of_run, state, swarm_id):
        fate = "accepted" if tasks is None else fate_of(tasks.get(attempt.bead_id))
        if fate in OVER:
            continue
        repo = await _repo_of(attempt)
        # Without a repository there are no refs, unless the attempt is just beginning.
        if repo is not None or (is_live and "repo" not in attempt.facts):
            common = None if repo is None else repo.common
            holders.add(Holder(swarm_id, attempt.bead_id, fate, common, is_live))
    return holders


async def refs_of_tasks(
    attempts: Iterable[AttemptRecord], tasks: Tasks, holders: Sequence[Holder], *, everything: bool
) -> list[Leftover]:
    """The branches, the saved work and the landings of the attempts' tasks."""
    places = {
        (attempt.bead_id, attempt.facts["repo"], attempt.facts["branch"]): attempt
        for attempt in attempts
        if "branch" in attempt.facts
    }
    found = []
    for _, attempt in sorted(places.items()):
        repo = await _repo_of(attempt)
        fate = fate_of(tasks.get(attempt.bead_id))
        if repo is None or any(
            each.holds(attempt.swarm_id, attempt.bead_id, fate, repo.common, all_=everything)
            for each in holders
        ):
            continue
        found += await _refs_of_task(repo, attempt, tasks, fate, everything=everything)
    return found


async def _refs_of_task(
    repo: GitRepo, attempt: AttemptRecord, tasks: Tasks, fate: Fate, *, everything: bool
) -> list[Leftover]:
    bead_id, branch = attempt.bead_id, f"refs/heads/{attempt.facts['branch']}"
    kinds: dict[str, Kind] = {
        branch: "branch",
        salvage_refs(bead_id): "saved work",
        landing_ref(bead_id): "landing",
    }
    checked_out = await repo.checkouts_by_branch()
    found = []
    for prefix, kind in kinds.items():
        for ref, commit in await _list_refs(repo, prefix):
            why = why_over(bead_id, fate)
            if ref.removeprefix("refs/heads/") in checked_out:
                continue
            if kind == "branch" and fate == "landed":
                squashed = squashed_ref(attempt.swarm_id, bead_id)
                if not await _has_landed(repo, commit, tasks[bead_id]["landed_commit"], squashed):
                    if not everything:
                        continue
                    why = f"{bead_id} has landed, but not all commits of this branch (--all)"
            found.append(
                Leftover(kind, attempt.swarm_id, ref, why, repo=repo.common, commit=commit)
            )
    return found


async def _has_landed(repo: GitRepo, tip: str, landed: str, squashed: str) -> bool:
    """Whether the landed commit contains all of a branch, or is the squash of it."""
    if tip == await repo.commit_of(squashed):
        return True
    try:
        return await repo.is_ancestor(tip, landed)
    except ShiftbossError:  # the target was rewritten: the branch may be the only copy
        return False


async def find_squashed(folders: Iterable[Path]) -> list[Leftover]:
    """The verified commits of squashed work, which receipts name. These refs name the swarm, so
    they are found even if the folder of the run is gone."""
    repos = {repo.common: repo for folder in folders if (repo := await _repo_at(folder))}
    found = []
    for common, repo in sorted(repos.items()):
        for ref, commit in await _list_refs(repo, SQUASHED_REFS):
            swarm_id, _, bead_id = unquote(ref.removeprefix(SQUASHED_REFS)).partition("/")
            why = f"{bead_id} has landed; only this keeps the commit that its receipt names (--all)"
            found.append(
                Leftover("squashed work", swarm_id, ref, why, 0, common, commit, bead_id=bead_id)
            )
    return found


def why_over(bead_id: str, fate: Fate) -> str:
    if fate == "unfinished":
        return f"{bead_id} is not finished: this is the only copy of its work (--all)"
    return f"{bead_id} has landed" if fate == "landed" else f"{bead_id} was cancelled"


async def _repo_of(attempt: AttemptRecord) -> GitRepo | None:
    """None if it is not known, or gone."""
    return await _repo_at(Path(attempt.facts["repo"])) if "repo" in attempt.facts else None


async def _repo_at(folder: Path) -> GitRepo | None:
    try:
        return await GitRepo.at(folder)
    except ShiftbossError:
        return None


async def _list_refs(repo: GitRepo, prefix: str) -> list[tuple[str, str]]:
    output = await repo.text(
        "the refs", "for-each-ref", "--format=%(refname) %(objectname)", prefix
    )
    pairs = [line.split() for line in output.splitlines()]
    return [(ref, commit) for ref, commit in pairs]
