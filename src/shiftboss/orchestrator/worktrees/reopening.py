"""Opens the work tree of an ended attempt again, for a person."""

from __future__ import annotations

import asyncio
from pathlib import Path

from shiftboss.orchestrator.git.repository import GitRepo
from shiftboss.orchestrator.git.runner import checked
from shiftboss.orchestrator.worktrees.salvage import newest_salvage


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
