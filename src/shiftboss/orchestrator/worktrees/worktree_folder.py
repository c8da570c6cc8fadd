"""The folder of all work trees: creates one per attempt, removes it, recovers after crashes, and
opens the work tree of an ended attempt again for a person."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Final

from shiftboss.errors import ShiftbossError, TreeUnavailable
from shiftboss.orchestrator.attempt.workspace import AgentAssignment
from shiftboss.orchestrator.git.private_refs import delete_landed_branch
from shiftboss.orchestrator.git.repository import GitRepo
from shiftboss.orchestrator.git.runner import checked
from shiftboss.orchestrator.worktrees.environment import (
    Ports,
    copy_files,
    exclude_from_git,
    run_setup,
)
from shiftboss.orchestrator.worktrees.git_hooks import install_hooks
from shiftboss.orchestrator.worktrees.removal import WorktreeMarks, WorktreeRemoval
from shiftboss.orchestrator.worktrees.salvage import (
    keep_commit,
    newest_salvage,
    salvage_worktree,
)
from shiftboss.orchestrator.worktrees.worktree import (
    Worktree,
    find_admin,
    find_worktrees,
    lock_reason,
)
from shiftboss.protocol.plan import PlanRepo
from shiftboss.system.background_delete import spread_subfolders
from shiftboss.system.file_locks import folder_lock

log = logging.getLogger(__name__)

CHECKOUT_SECONDS: Final = 600.0
LOCK_SECONDS: Final = 1.0


class WorktreeFolder:
    """Work trees are at `folder`/SWARM/TASK.EPOCH. Everything about them is stored in git, so a new
    process can continue after a crash."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()
        self._ports = Ports(self._folder / ".ports")
        self._removal = WorktreeRemoval(self._folder / ".gone")
        self._marks = WorktreeMarks(self._folder / ".made")
        self._removing: defaultdict[Path, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def create(
        self,
        assignment: AgentAssignment,
        repo: PlanRepo,
        contract_file: Path,
        *,
        continue_branch: bool = False,
    ) -> Worktree:
        """Create the work tree of an attempt. Work trees of earlier attempts are salvaged and
        removed first. With `continue_branch`, the work starts at the tip of the branch if that
        contains the base. Otherwise it starts at the base, and the old tip is salvaged.

        Raises UnknownRepo, or TreeUnavailable; then nothing is left behind.
        """
        git_repo = await GitRepo.at(assignment.repo)
        salvaged = await self._remove_earlier(git_repo, assignment)
        try:
            async with folder_lock(git_repo.common / "shiftboss", "trees"):
                await _break_lock(git_repo.common / "refs" / "heads" / f"{assignment.branch}.lock")
                worktree = await self._add(git_repo, assignment, continue_branch, salvaged)
        except asyncio.CancelledError:
            await self._take_down_unfinished(git_repo, self._path(assignment))
            raise
        try:
            await install_hooks(worktree, contract_file)
            excludes_file = contract_file.parent / "git-excludes"
            await exclude_from_git(worktree, repo.copy_files, excludes_file)
            await _check_out(worktree)
            await asyncio.to_thread(copy_files, assignment.repo, worktree.path, repo.copy_files)
            ports = await asyncio.to_thread(self._ports.take, worktree.path, repo.ports)
            worktree = replace(worktree, environment={**repo.environment, **ports})
            await run_setup(worktree, repo)
        except BaseException:
            await self._take_down(worktree)
            raise
        return worktree

    async def remove(self, worktree: Worktree) -> str | None:
        """Salvage a work tree, then remove it. Returns the salvage ref. Its branch is deleted if
        the target contains all of it.

        An attempt that has ended and the next one may both call this; the second call does
        nothing."""
        async with self._removing[worktree.path]:
            if not await asyncio.to_thread(_exists, worktree):
                return None
            ref = await salvage_worktree(worktree)
            await self._take_down(worktree)
            return ref

    async def sweep(
        self, repos: Collection[Path], swarm_id: str, alive: Collection[str]
    ) -> list[str]:
        """Remove the work trees of a swarm that are not in use. `repos` are all of its
        repositories, `alive` the names (TASK.EPOCH) of running attempts. Returns the salvage refs.

        A work tree that no repository knows is removed without salvage: git cannot save it.
        """
        await self._removal.delete_leftovers()
        commons = {(await GitRepo.at(repo)).common for repo in repos}
        worktrees = [
            worktree
            for common in sorted(commons)
            for worktree in await asyncio.to_thread(_list_worktrees, common, self._folder)
            if worktree.swarm_id == swarm_id
        ]
        salvaged = []
        for worktree in worktrees:
            if worktree.name in alive:
                continue
            try:
                ref = await self.remove(worktree)
            except ShiftbossError as error:
                log.warning("the work tree %s stays: %s", worktree.path, error.detail)
                continue
            salvaged += [ref] if ref else []
        registered = {worktree.path for worktree in worktrees}
        for path in await asyncio.to_thread(_entries, self._folder / swarm_id):
            if path in registered or path.name in alive:
                continue
            if await asyncio.to_thread(self._marks.has, path):
                await self._removal.remove_folder(path)
                await asyncio.to_thread(self._marks.delete, path)
        return salvaged

    async def close(self) -> None:
        """Wait until removed work trees are deleted."""
        await self._removal.close()

    async def _remove_earlier(self, repo: GitRepo, assignment: AgentAssignment) -> tuple[str, ...]:
        """Remove the work trees of earlier attempts, and whatever is at the path of the new one.
        Returns the salvage refs."""
        salvaged = []
        for worktree in await asyncio.to_thread(_list_worktrees, repo.common, self._folder):
            if (worktree.swarm_id, worktree.bead_id) == (assignment.swarm_id, assignment.bead_id):
                ref = await self.remove(worktree)
                salvaged += [ref] if ref else []
        path = self._path(assignment)
        await asyncio.to_thread(self._marks.refuse_foreign, path)
        await self._removal.remove_folder(path)
        return tuple(salvaged)

    def _path(self, assignment: AgentAssignment) -> Path:
        return self._folder / assignment.swarm_id / assignment.name

    async def _add(
        self, repo: GitRepo, assignment: AgentAssignment, continues: bool, salvaged: tuple[str, ...]
    ) -> Worktree:
        """Register the work tree, without its files: the lock of the repository is held here, and
        other attempts wait for it."""
        await _refuse_symbolic_branch(repo, assignment.branch)
        start, kept = await _start_commit(repo, assignment, continues)
        path = self._path(assignment)
        worktree = Worktree(
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
        await asyncio.to_thread(_create_parent, path.parent)
        await asyncio.to_thread(self._marks.set, path)
        output = await repo.run(
            [
                *("worktree", "add", "--quiet", "--no-checkout", "--no-track"),
                *("--lock", "--reason", lock_reason(worktree)),
                *("-B", assignment.branch, str(path), start),
            ]
        )
        if output.code != 0 and not await asyncio.to_thread(path.exists):
            await asyncio.to_thread(self._marks.delete, path)
        checked(output, f"the work tree for {assignment.name} on the branch {assignment.branch}")
        admin = await asyncio.to_thread(find_admin, repo.common, path)
        if admin is None:
            raise TreeUnavailable(f"git created the work tree {path} but does not list it")
        return replace(worktree, admin=admin)

    async def _take_down_unfinished(self, repo: GitRepo, path: Path) -> None:
        """Git was ended while it created the work tree; it may or may not be registered."""
        for worktree in await asyncio.to_thread(_list_worktrees, repo.common, self._folder):
            if worktree.path == path:
                await self._take_down(worktree)
                return
        if await asyncio.to_thread(self._marks.has, path):
            await self._removal.remove_folder(path)
            await asyncio.to_thread(self._marks.delete, path)

    async def _take_down(self, worktree: Worktree) -> None:
        """The folder goes first: after a crash, the work tree is found by its registration."""
        await self._removal.remove_folder(worktree.path)
        await asyncio.to_thread(self._marks.delete, worktree.path)
        await asyncio.to_thread(self._ports.release, worktree.path)
        await self._removal.remove_registration(worktree)
        await delete_landed_branch(GitRepo(worktree.common), worktree.branch, worktree.target)


async def _refuse_symbolic_branch(repo: GitRepo, branch: str) -> None:
    """Commits on a symbolic ref would go to the branch that it points to."""
    ref = await repo.symbolic_target(branch)
    if ref is not None:
        raise TreeUnavailable(
            f"the branch {branch} in {repo.common} is a symbolic ref to {ref}",
            field="branch",
            hint=f"delete it: git symbolic-ref --delete refs/heads/{branch}",
        )


async def _break_lock(lock: Path) -> None:
    """Remove the lock of an attempt's branch. The agents of earlier attempts are gone; one that was
    killed during a commit has left it, and no other process holds such a lock for that long."""
    if await asyncio.to_thread(lock.exists):
        await asyncio.sleep(LOCK_SECONDS)
        await asyncio.to_thread(lock.unlink, missing_ok=True)


async def _start_commit(
    repo: GitRepo, assignment: AgentAssignment, continues: bool
) -> tuple[str, tuple[str, ...]]:
    """The commit that the work starts at, and the ref that keeps the former tip of the branch."""
    base, tip, target_tip = await repo.commits_of(
        assignment.base, f"refs/heads/{assignment.branch}", f"refs/heads/{assignment.target}"
    )
    if base is None:
        raise TreeUnavailable(
            f"the base {assignment.base} of {assignment.bead_id} is not in {repo.common}",
            field="base",
            hint="restore it: the work must descend from the base of its contract",
        )
    if tip is None or await repo.is_ancestor(tip, base):
        return base, ()
    if continues and await repo.is_ancestor(base, tip):
        return tip, ()
    if target_tip is not None and await repo.is_ancestor(tip, target_tip):
        return base, ()
    return base, (await keep_commit(repo, assignment.bead_id, tip),)


async def _check_out(worktree: Worktree) -> None:
    output = await worktree.checkout.run(["reset", "--hard", "--quiet"], seconds=CHECKOUT_SECONDS)
    checked(output, f"writing the files of {worktree.start[:12]} to {worktree.path}")


def _create_parent(folder: Path) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    spread_subfolders(folder)


def _list_worktrees(common: Path, folder: Path) -> list[Worktree]:
    return list(find_worktrees(common, folder))


def _exists(worktree: Worktree) -> bool:
    return worktree.admin.exists() or worktree.path.exists() or worktree.path.is_symlink()


def _entries(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []


async def reopen_worktree(repo: Path, path: Path, branch: str, bead_id: str, base: str) -> Path:
    """The work tree at its old path, with its branch. If the branch is gone, or is checked out
    elsewhere, it starts at the newest saved work, or at the base. The next run finds it by its
    path, saves what is in it and removes it, like every other one."""
    if await asyncio.to_thread(path.is_dir):
        return path
    git_repo = await GitRepo.at(repo)
    await asyncio.to_thread(path.parent.mkdir, mode=0o700, parents=True, exist_ok=True)
    has_branch = await git_repo.branch_tip(branch) is not None
    if has_branch and branch not in await git_repo.checkouts_by_branch():
        start = [str(path), branch]
    else:
        start = ["--detach", str(path), await newest_salvage(git_repo, bead_id) or base]
    output = await git_repo.run(["worktree", "add", "--quiet", *start])
    checked(output, f"the work tree {path}")
    return path
