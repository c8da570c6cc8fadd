"""The refs that ended runs have left in the repositories: branches, saved work, landings.

Most of these refs name the task, but not the swarm. If several swarms have a task of the same name
in a repository, a ref may be the work of any of them: it stays until all of them are over.
"""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

from shiftboss.attempts.records import AttemptRecord, attempts_of_run
from shiftboss.errors import ShiftbossError
from shiftboss.orchestrator.git.private_refs import SQUASHED_REFS, landing_ref, squashed_ref
from shiftboss.orchestrator.git.repository import GitRepo
from shiftboss.orchestrator.leftovers.items import (
    OVER,
    KeptWork,
    Kind,
    Leftover,
    TaskOutcome,
    WorkLocation,
    outcome_of,
)
from shiftboss.orchestrator.worktrees.salvage import salvage_refs, swarm_of_salvage
from shiftboss.rules.paths.branch_names import is_branch_name

Tasks = Mapping[str, Mapping[str, Any]]
WorkLocations = Mapping[str, WorkLocation]
_OWN_BRANCHES: Final = "shiftboss/"


class RefHolder(NamedTuple):
    """A task that is not over, and the repository in which a run has worked on it: None if that is
    not known yet."""

    swarm_id: str
    bead_id: str
    outcome: TaskOutcome
    repo: Path | None
    is_live: bool

    def holds(
        self, swarm_id: str, bead_id: str, outcome: TaskOutcome, repo: Path, *, all_: bool
    ) -> bool:
        """Whether refs of this task in that swarm may be the work of this one. With `all_`, the
        work of unfinished tasks of ended runs goes as well."""
        if (swarm_id, bead_id) == (self.swarm_id, self.bead_id) or bead_id != self.bead_id:
            return False
        both_go = all_ and not self.is_live and self.outcome == outcome == "unfinished"
        return self.repo in (None, repo) and not both_go


async def find_holders(
    state: Path, swarm_id: str, tasks: Tasks | None, contracts: WorkLocations, *, is_live: bool
) -> set[RefHolder]:
    """The tasks of a run that are not over. If its tasks could not be read, all of them may have
    been accepted."""
    holders = set()
    for attempt in await asyncio.to_thread(attempts_of_run, state, swarm_id):
        outcome = "accepted" if tasks is None else outcome_of(tasks.get(attempt.bead_id))
        if outcome in OVER:
            continue
        folder = repo_of(attempt, contracts)
        repo = None if folder is None else await _repo_at(folder)
        # Without a repository there are no refs, unless the attempt is just beginning.
        if repo is not None or (is_live and folder is None):
            common = None if repo is None else repo.common
            holders.add(RefHolder(swarm_id, attempt.bead_id, outcome, common, is_live))
    return holders


def repo_of(attempt: AttemptRecord, contracts: WorkLocations) -> Path | None:
    """By the contract, or else by the record, which only serves to keep or to save something."""
    contract = contracts.get(attempt.bead_id)
    if contract is not None:
        return contract.repo
    return Path(attempt.facts["repo"]) if "repo" in attempt.facts else None


async def refs_of_tasks(
    swarm_id: str,
    outcomes: Mapping[str, TaskOutcome],
    tasks: Tasks,
    contracts: WorkLocations,
    holders: Sequence[RefHolder],
    *,
    include_unfinished: bool,
) -> tuple[list[Leftover], list[KeptWork]]:
    """The branches, the saved work and the landings of the tasks in `outcomes`, as far as they can
    go, and those that stay."""
    leftovers: list[Leftover] = []
    kept: list[KeptWork] = []
    for bead_id, outcome in sorted(outcomes.items()):
        contract = contracts.get(bead_id)
        if contract is None:
            why = "its branch and saved work, if any: no contract here says where they are"
            command = "git for-each-ref refs/heads/shiftboss refs/shiftboss"
            kept += [KeptWork(swarm_id, bead_id, why, command)]
            continue
        repo = await _repo_at(contract.repo)
        if repo is None:
            continue
        holder = next(
            (
                each
                for each in holders
                if each.holds(swarm_id, bead_id, outcome, repo.common, all_=include_unfinished)
            ),
            None,
        )
        if holder is not None:
            kept.append(_kept_for(holder, swarm_id))
            continue
        landed = str((tasks.get(bead_id) or {}).get("landed_commit") or "")
        branch = await _branch_of_task(
            repo, swarm_id, bead_id, outcome, contract, landed, include_unfinished
        )
        leftovers += [branch] if isinstance(branch, Leftover) else []
        kept += [branch] if isinstance(branch, KeptWork) else []
        leftovers += await _private_refs(repo, swarm_id, bead_id, outcome)
    return leftovers, kept


def _kept_for(holder: RefHolder, swarm_id: str) -> KeptWork:
    return KeptWork(
        swarm_id,
        holder.bead_id,
        f"its refs: a task of the same name in {holder.swarm_id} is not over",
        shlex.join(["shiftboss", "task", "show", holder.bead_id, "--swarm", holder.swarm_id]),
    )


async def _branch_of_task(
    repo: GitRepo,
    swarm_id: str,
    bead_id: str,
    outcome: TaskOutcome,
    contract: WorkLocation,
    landed: str,
    include_unfinished: bool,
) -> Leftover | KeptWork | None:
    """Exactly the branch of the contract. Work that has not landed goes only if the branch is one
    of ours: people may have given a branch of their own to a task."""
    branch = contract.branch
    tip = await repo.branch_tip(branch) if is_branch_name(branch) else None
    if tip is None or branch == contract.target:
        return None
    checkout = (await repo.checkouts_by_branch()).get(branch)
    if checkout is not None and checkout.folder.parent.name == swarm_id:
        return None  # it is listed itself, and goes first
    look = ["git", "-C", str(contract.repo), "log", "--oneline", f"refs/heads/{branch}", "--"]

    def stays(why: str) -> KeptWork:
        return KeptWork(swarm_id, bead_id, f"its branch {branch} {why}", shlex.join(look))

    if checkout is not None:
        return stays("is checked out")
    why = why_over(bead_id, outcome)
    has_landed = outcome == "landed" and await _has_landed(
        repo, tip, landed, squashed_ref(swarm_id, bead_id)
    )
    if not has_landed:
        if not branch.startswith(_OWN_BRANCHES):
            return stays("has work that has not landed, and its name is not one of ours")
        if outcome == "landed" and not include_unfinished:
            return stays("has commits that have not landed")
        if outcome == "landed":
            why = f"{bead_id} has landed, but not all commits of this branch (--all)"
    return Leftover("branch", swarm_id, f"refs/heads/{branch}", why, repo=repo.common, commit=tip)


async def _private_refs(
    repo: GitRepo, swarm_id: str, bead_id: str, outcome: TaskOutcome
) -> list[Leftover]:
    saved, landing = salvage_refs(bead_id), landing_ref(bead_id)
    kinds: dict[str, Kind] = {saved: "saved work", landing: "landing"}
    return [
        Leftover(kind, swarm_id, ref, why_over(bead_id, outcome), repo=repo.common, commit=commit)
        for prefix, kind in kinds.items()
        for ref, commit, subject in await _list_refs(repo, prefix)
        if (ref == landing or "/" not in ref.removeprefix(saved))
        # Another swarm has a task of this name, maybe with its state in another folder.
        and swarm_of_salvage(subject) in (None, swarm_id)
    ]


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
    leftovers = []
    for common, repo in sorted(repos.items()):
        for ref, commit, _ in await _list_refs(repo, SQUASHED_REFS):
            swarm_id, _, bead_id = unquote(ref.removeprefix(SQUASHED_REFS)).partition("/")
            why = f"{bead_id} has landed; only this keeps the commit that its receipt names (--all)"
            leftovers.append(
                Leftover("squashed work", swarm_id, ref, why, 0, common, commit, bead_id=bead_id)
            )
    return leftovers


def why_over(bead_id: str, outcome: TaskOutcome) -> str:
    if outcome == "unfinished":
        return f"{bead_id} is not finished: this is the only copy of its work (--all)"
    return f"{bead_id} has landed" if outcome == "landed" else f"{bead_id} was cancelled"


async def _repo_at(folder: Path) -> GitRepo | None:
    try:
        return await GitRepo.at(folder)
    except ShiftbossError:
        return None


async def _list_refs(repo: GitRepo, prefix: str) -> list[tuple[str, str, str]]:
    """Each ref with its object and the first line of its message."""
    output = await repo.text(
        "the refs", "for-each-ref", "--format=%(refname) %(objectname) %(subject)", prefix
    )
    lines = [line.split(" ", 2) for line in output.split("\n") if line]
    return [(ref, commit, subject) for ref, commit, subject in lines]
