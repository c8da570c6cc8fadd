"""What ended runs have left behind: work trees, branches, saved work, folders.

Finding is apart from removing, so that people can look first. A run that is alive has no leftovers,
and the lock of each run is held while they are removed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import shutil
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from shiftboss.attempts.records import AttemptRecord, attempts_of_run
from shiftboss.attempts.run_process import process_of_run
from shiftboss.defaults import RUNS_FOLDER
from shiftboss.errors import ShiftbossError
from shiftboss.orchestrator.git.private_refs import break_stale_locks
from shiftboss.orchestrator.git.repository import GitRepo
from shiftboss.orchestrator.leftovers.items import (
    OVER,
    KeptWork,
    Leftover,
    TaskOutcome,
    outcome_of,
)
from shiftboss.orchestrator.leftovers.refs import (
    RefHolder,
    WorkLocations,
    refs_of_tasks,
    repo_of,
    why_over,
)
from shiftboss.orchestrator.run.run_files import read_run_facts
from shiftboss.orchestrator.run.run_lock import hold_run_lock
from shiftboss.orchestrator.worktrees.worktree import Worktree, find_worktrees
from shiftboss.orchestrator.worktrees.worktree_folder import WorktreeFolder


def reservation(
    swarm_id: str, task: Mapping[str, Any] | None, holder: Mapping[str, Any]
) -> Leftover | None:
    """The files that an unfinished task of an ended run keeps from other tasks."""
    if holder["swarm_id"] != swarm_id or outcome_of(task) != "unfinished":
        return None
    why = f"{holder['bead_id']} is not finished; --all cancels it"
    files = ", ".join(holder["owned"])
    return Leftover("reservation", swarm_id, files, why, bead_id=str(holder["bead_id"]))


def list_runs(state: Path) -> dict[str, bool]:
    """The swarms that have a run in the state folder, and whether it is alive."""
    folder = state / RUNS_FOLDER
    runs = sorted(folder.iterdir()) if folder.is_dir() else []
    return {
        run.name: process_of_run(run) is not None
        for run in runs
        if run.is_dir() and not run.is_symlink()
    }


async def find_leftovers(
    state: Path,
    swarm_id: str,
    tasks: Mapping[str, Mapping[str, Any]],
    contracts: WorkLocations,
    *,
    include_unfinished: bool,
    holders: Sequence[RefHolder] = (),
) -> tuple[list[Leftover], list[KeptWork]]:
    """What an ended run has left. `tasks` and `contracts` are as the server shows them. With
    `include_unfinished`, work of unfinished tasks counts too, but never accepted work that has not
    landed. `holders` are the tasks of all runs whose refs must stay."""
    attempts = await asyncio.to_thread(attempts_of_run, state, swarm_id)
    outcomes = {name: outcome_of(tasks.get(name)) for name in {each.bead_id for each in attempts}}
    removable = {name for name, outcome in outcomes.items() if outcome in OVER}
    if include_unfinished:
        removable |= {name for name, outcome in outcomes.items() if outcome == "unfinished"}
    leftovers = [leftover async for leftover in _worktrees(attempts, contracts)]
    over = {name: outcome for name, outcome in outcomes.items() if name in removable}
    refs, refs_kept = await refs_of_tasks(
        swarm_id, over, tasks, contracts, holders, include_unfinished=include_unfinished
    )
    leftovers += refs
    leftovers += await asyncio.to_thread(_folders, state, swarm_id, attempts, outcomes, removable)
    run = state / RUNS_FOLDER / swarm_id
    kept = [_kept(run, name, outcomes[name]) for name in sorted(outcomes) if name not in removable]
    return leftovers, kept + refs_kept


def hold_ended_run(state: Path, swarm_id: str) -> AbstractContextManager[None]:
    """For as long as something of it is removed. Raises Conflict if a run of the swarm has started
    in the meantime."""
    run = state / RUNS_FOLDER / swarm_id
    # Of squashed work, the folder of the run may be gone; taking the lock would create it again.
    return hold_run_lock(run, swarm_id, "clean") if run.is_dir() else nullcontext()


async def remove_leftovers(leftovers: Iterable[Leftover]) -> list[tuple[Leftover, str | None]]:
    """Remove them; returns each with the reason why it could not be removed, or None. The caller
    holds the run."""
    results: list[tuple[Leftover, str | None]] = []
    for leftover in leftovers:
        try:
            await _remove(leftover)
        except (ShiftbossError, OSError) as error:
            results.append((leftover, str(getattr(error, "detail", error))))
        else:
            results.append((leftover, None))
    return results


async def _remove(leftover: Leftover) -> None:
    if leftover.worktree is not None:
        folder = WorktreeFolder(leftover.worktree.path.parent.parent)
        await folder.remove(leftover.worktree)
        await folder.close()
    elif leftover.repo is not None:
        repo = GitRepo(leftover.repo)
        await break_stale_locks(repo, [leftover.name])
        if not await repo.delete_ref(leftover.name, leftover.commit):
            raise ShiftbossError("it has moved, or git has locked it")
    else:
        await asyncio.to_thread(shutil.rmtree, leftover.name)


async def _worktrees(
    attempts: list[AttemptRecord], contracts: WorkLocations
) -> AsyncIterator[Leftover]:
    places = {
        (repo, Path(attempt.facts["tree"]).parent.parent, attempt.swarm_id)
        for attempt in attempts
        if "tree" in attempt.facts and (repo := repo_of(attempt, contracts)) is not None
    }
    for repo, trees, swarm_id in sorted(places):
        for worktree in await _find_worktrees(repo, trees):
            if worktree.swarm_id == swarm_id:
                yield Leftover(
                    "work tree",
                    swarm_id,
                    str(worktree.path),
                    "its run has ended; uncommitted work is saved first",
                    await asyncio.to_thread(_size, worktree.path),
                    worktree=worktree,
                )


async def _find_worktrees(repo: Path, trees: Path) -> list[Worktree]:
    """None if the repository is gone."""
    try:
        common = (await GitRepo.at(repo)).common
    except ShiftbossError:
        return []
    return await asyncio.to_thread(lambda: list(find_worktrees(common, trees)))


def _folders(
    state: Path,
    swarm_id: str,
    attempts: list[AttemptRecord],
    outcomes: Mapping[str, TaskOutcome],
    removable: set[str],
) -> list[Leftover]:
    """The folder of the run if all of its tasks are over, else those of the attempts at them."""
    run = state / RUNS_FOLDER / swarm_id
    if set(outcomes) == removable:
        why = "all of its tasks are over" if attempts else "no agent has worked in it"
        return [Leftover("run", swarm_id, str(run), why, _size(run))]
    return [
        Leftover(
            "attempt",
            swarm_id,
            str(attempt.folder),
            why_over(attempt.bead_id, outcomes[attempt.bead_id]),
            _size(attempt.folder),
        )
        for attempt in attempts
        if attempt.bead_id in removable
    ]


def _kept(run: Path, bead_id: str, outcome: TaskOutcome) -> KeptWork:
    if outcome == "accepted":
        facts = read_run_facts(run)
        command = f"shiftboss status {run.name}"
        if facts is not None and facts.plan:
            command = f"shiftboss land {shlex.quote(facts.plan)} {bead_id}"
        return KeptWork(run.name, bead_id, "accepted, but not landed", command)
    return KeptWork(
        run.name,
        bead_id,
        "not finished: a later run continues it, unless you cancel it",
        f"shiftboss task cancel {bead_id} --swarm {run.name}",
    )


def _size(folder: Path) -> int:
    """In bytes, without following links; files that vanish in the meantime do not count."""
    total = 0
    if folder.is_symlink():
        return total
    for parent, folders, files in os.walk(folder, followlinks=False):
        for name in (*folders, *files):
            with contextlib.suppress(OSError):
                total += Path(parent, name).lstat().st_blocks * 512
    return total
