"""Work trees: one for each attempt, made by git and taken down without losing anything."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from shiftboss.errors import MergeConflict, ShiftbossError, TreeUnavailable
from shiftboss.orchestrator.attempt.workspace import AgentAssignment
from shiftboss.orchestrator.git.repository import GitRepo, break_stale_locks
from shiftboss.orchestrator.git.runner import checked
from shiftboss.orchestrator.worktrees.environment import Ports, copy_files, keep_out, set_up
from shiftboss.orchestrator.worktrees.git_hooks import set_hooks
from shiftboss.orchestrator.worktrees.removal import WorktreeMarks, WorktreeRemoval
from shiftboss.orchestrator.worktrees.salvage import keep, salvage_tree
from shiftboss.orchestrator.worktrees.worktree import Worktree, admin_of, found_trees, lock_reason
from shiftboss.protocol.plan import PlanRepo
from shiftboss.system.background_delete import spread
from shiftboss.system.file_locks import turn

# Merging commits that were proven apart, so that new work can start from all of them.


async def base_for(repo: GitRepo, target: str, accepted: Sequence[str]) -> str:
    base = await repo.branch_tip(target)
    if base is None:
        raise TreeUnavailable(
            f"there is no branch {target} in {repo.common}",
            field="branch",
            hint="make it, or name another one as the branch of the repo in the plan",
        )
    for name in accepted:
        commit = await repo.commit_of(name)
        if commit is None:
            raise TreeUnavailable(
                f"the accepted commit {name} is not in {repo.common}",
                hint="bring it back: git fetch",
            )
        base = await _with(repo, base, commit)
    return base


async def _with(repo: GitRepo, base: str, commit: str) -> str:
    if await repo.has(commit, base):
        return base
    if await repo.has(base, commit):
        return commit
    merged = await repo.merge(base, commit)
    if merged.paths:
        raise MergeConflict(
            f"{commit[:12]} cannot be merged with {base[:12]}: {', '.join(merged.paths[:10])}",
            hint="land one of them first; the other one's task then merges it",
            facts={"paths": merged.paths, "ours": base, "theirs": commit},
        )
    # The time of the newer one: whoever merges the same commits again gets the same commit.
    dates = await repo.text("the dates", "show", "--no-patch", "--format=%ct", base, commit)
    date = f"{max(int(one) for one in dates.split())} +0000"
    message = f"Base with {commit[:12]}\n\nMade by Shiftboss for a task that depends on both.\n"
    return await repo.commit_tree(merged.tree, [base, commit], message, date=date)


__all__ = ["Worktree", "Worktrees"]

log = logging.getLogger(__name__)

CHECKOUT_SECONDS: Final = 600.0
LOCK_SECONDS: Final = 1.0


class Worktrees:
    """They lie in `folder`/SWARM/TASK.EPOCH. All that has to be known of them is in git, so a new
    process goes on where another was ended."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()
        self._ports = Ports(self._folder / ".ports")
        self._removal = WorktreeRemoval(self._folder / ".gone")
        self._marks = WorktreeMarks(self._folder / ".made")
        self._removing: defaultdict[Path, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def make(
        self,
        assignment: AgentAssignment,
        repo: PlanRepo,
        contract_file: Path,
        *,
        carry_on: bool = False,
    ) -> Worktree:
        """What an earlier attempt left in its tree is salvaged, and the tree removed. With
        `carry_on`, or with a checkpoint, the work begins at the tip of the branch, where that has
        the base; else at the base, and the old tip is kept.

        Raises UnknownRepo, or TreeUnavailable with nothing left behind.
        """
        found = await GitRepo.at(assignment.repo)
        salvaged = await self._clear(found, assignment)
        goes_on = carry_on or assignment.checkpoint is not None
        async with turn(found.common / "shiftboss", "trees"):
            await _unlock(found.common / "refs" / "heads" / f"{assignment.branch}.lock")
            tree = await self._add(found, assignment, goes_on, salvaged)
        try:
            await set_hooks(tree, contract_file)
            await keep_out(tree, repo.copy_files, contract_file.parent / "git-excludes")
            await _check_out(tree)
            await asyncio.to_thread(copy_files, assignment.repo, tree.path, repo.copy_files)
            ports = await asyncio.to_thread(self._ports.take, tree.path, repo.ports)
            tree = replace(tree, environment={**repo.environment, **ports})
            await set_up(tree, repo)
        except BaseException:
            await self._take_down(tree)
            raise
        return tree

    async def salvage(self, tree: Worktree) -> str | None:
        """What is neither on a branch nor salvaged yet is kept under a ref: the files as they lie
        there, and commits that were left behind. The ref; None when nothing would be lost."""
        return await salvage_tree(tree)

    async def remove(self, tree: Worktree) -> str | None:
        """Salvage it, then take it down. Its branch goes when the target has all of it.

        An attempt that has ended and the one after it may both want to; the second has nothing to
        do then."""
        async with self._removing[tree.path]:
            if not await asyncio.to_thread(_is_there, tree):
                return None
            ref = await salvage_tree(tree)
            await self._take_down(tree)
            return ref

    async def sweep(
        self, repos: Collection[Path], swarm_id: str, alive: Collection[str]
    ) -> list[str]:
        """Remove the trees of a swarm that nobody works in. `repos` are all of its repositories,
        `alive` the names of assignments (TASK.EPOCH) under way. The refs with what was salvaged.

        A tree that no repository knows of has nothing that git could keep, and goes as it is.
        """
        await self._removal.leftovers()
        commons = {(await GitRepo.at(repo)).common for repo in repos}
        trees = [
            tree
            for common in sorted(commons)
            for tree in await asyncio.to_thread(_found, common, self._folder)
            if tree.swarm_id == swarm_id
        ]
        salvaged = []
        for tree in trees:
            if tree.name in alive:
                continue
            try:
                ref = await self.remove(tree)
            except ShiftbossError as error:
                log.warning("the work tree %s stays: %s", tree.path, error.detail)
                continue
            salvaged += [ref] if ref else []
        known = {tree.path for tree in trees}
        for path in await asyncio.to_thread(_folders, self._folder / swarm_id):
            if path in known or path.name in alive:
                continue
            if await asyncio.to_thread(self._marks.has, path):
                await self._removal.folder(path)
                await asyncio.to_thread(self._marks.drop, path)
        return salvaged

    async def base_for(self, repo: Path, target: str, accepted: Sequence[str]) -> str:
        """The commit that new work starts from: the tip of the target, with the accepted commits
        that have not landed yet. The same commits give the same one.

        Raises MergeConflict; its facts are `paths`, `ours` and `theirs`.
        """
        return await base_for(await GitRepo.at(repo), target, accepted)

    async def close(self) -> None:
        """Wait until what was removed is gone."""
        await self._removal.close()

    async def _clear(self, repo: GitRepo, assignment: AgentAssignment) -> tuple[str, ...]:
        """The trees of earlier attempts at the task, and what lies where the new one will be."""
        salvaged = []
        for tree in await asyncio.to_thread(_found, repo.common, self._folder):
            if (tree.swarm_id, tree.bead_id) == (assignment.swarm_id, assignment.bead_id):
                ref = await self.remove(tree)
                salvaged += [ref] if ref else []
        path = self._path(assignment)
        await asyncio.to_thread(self._marks.refuse_foreign, path)
        await self._removal.folder(path)
        return tuple(salvaged)

    def _path(self, assignment: AgentAssignment) -> Path:
        return self._folder / assignment.swarm_id / assignment.name

    async def _add(
        self, repo: GitRepo, assignment: AgentAssignment, goes_on: bool, salvaged: tuple[str, ...]
    ) -> Worktree:
        """Without its files yet: others wait for their turn at the repository."""
        await _refuse_other_name(repo, assignment.branch)
        start, kept = await _start(repo, assignment, goes_on)
        path = self._path(assignment)
        tree = Worktree(
            path=path,
            common=repo.common,
            admin=repo.common / "worktrees" / path.name,
            swarm_id=assignment.swarm_id,
            bead_id=assignment.bead_id,
            epoch=assignment.epoch,
            branch=assignment.branch,
            target=assignment.target,
            base=assignment.base,
            start=start,
            salvaged=(*salvaged, *kept),
        )
        await asyncio.to_thread(_make_place, path.parent)
        await asyncio.to_thread(self._marks.set, path)
        said = await repo.run(
            [
                *("worktree", "add", "--quiet", "--no-checkout", "--no-track"),
                *("--lock", "--reason", lock_reason(tree)),
                *("-B", assignment.branch, str(path), start),
            ]
        )
        if said.code != 0 and not await asyncio.to_thread(path.exists):
            await asyncio.to_thread(self._marks.drop, path)
        checked(said, f"the work tree for {assignment.name} on the branch {assignment.branch}")
        admin = await asyncio.to_thread(admin_of, repo.common, path)
        if admin is None:
            raise TreeUnavailable(f"git knows nothing of the work tree {path} that it has made")
        return replace(tree, admin=admin)

    async def _take_down(self, tree: Worktree) -> None:
        """The folder first: what git keeps of a tree is how it is found again after a crash."""
        await self._removal.folder(tree.path)
        await asyncio.to_thread(self._marks.drop, tree.path)
        await asyncio.to_thread(self._ports.give_back, tree.path)
        await self._removal.registration(tree)
        await drop_landed_branch(GitRepo(tree.common), tree.branch, tree.target)


async def drop_landed_branch(repo: GitRepo, branch: str, target: str) -> bool:
    """Whether it is gone. One that has something which the target has not, stays; and one that
    somebody has checked out."""
    if not branch or not target or branch == target:
        return False
    tip, end = await repo.branch_tip(branch), await repo.branch_tip(target)
    if tip is None or end is None or not await repo.has(tip, end):
        return False
    if branch in await repo.checked_out():
        return False
    await break_stale_locks(repo, [f"refs/heads/{branch}"])
    return await repo.drop_ref(f"refs/heads/{branch}", tip)


async def _refuse_other_name(repo: GitRepo, branch: str) -> None:
    """Work on it would go to the other branch, and so would its start."""
    other = await repo.other_name_of(branch)
    if other is not None:
        raise TreeUnavailable(
            f"the branch {branch} in {repo.common} is only another name of {other}",
            field="branch",
            hint=f"take it away: git symbolic-ref --delete refs/heads/{branch}",
        )


async def _unlock(lock: Path) -> None:
    """Of the branch of an attempt. Its agents are gone, and one that was killed within a commit has
    left it; nobody else holds one for so long."""
    if await asyncio.to_thread(lock.exists):
        await asyncio.sleep(LOCK_SECONDS)
        await asyncio.to_thread(lock.unlink, missing_ok=True)


def _make_place(folder: Path) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    spread(folder)


def _found(common: Path, folder: Path) -> list[Worktree]:
    return list(found_trees(common, folder))


def _is_there(tree: Worktree) -> bool:
    return tree.admin.exists() or tree.path.exists() or tree.path.is_symlink()


def _folders(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []


async def _start(
    repo: GitRepo, assignment: AgentAssignment, goes_on: bool
) -> tuple[str, tuple[str, ...]]:
    """Where the work begins, and the ref that keeps what was on the branch."""
    base = await repo.commit_of(assignment.base)
    if base is None:
        raise TreeUnavailable(
            f"the base {assignment.base} of {assignment.bead_id} is not in {repo.common}",
            field="base",
            hint="bring it back: the work must descend from the commit that it was given",
        )
    tip = await repo.branch_tip(assignment.branch)
    if tip is None or await repo.has(tip, base):
        return base, ()
    if goes_on and await repo.has(base, tip):
        return tip, ()
    end = await repo.branch_tip(assignment.target)
    if end is not None and await repo.has(tip, end):
        return base, ()
    return base, (await keep(repo, assignment.bead_id, tip),)


async def _check_out(tree: Worktree) -> None:
    said = await tree.checkout.run(["reset", "--hard", "--quiet"], seconds=CHECKOUT_SECONDS)
    checked(said, f"writing the files of {tree.start[:12]} to {tree.path}")
