"""The work of a task as a difference to the base of its contract, without touching anything.

The files of a work tree are compared through a copy of its index: the agent that works there never
notices, and new files are shown too.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from shiftboss.errors import NotFound
from shiftboss.orchestrator.git.checkouts import GitCheckout
from shiftboss.orchestrator.git.repository import GitRepo
from shiftboss.orchestrator.git.runner import SETTINGS, checked, git_environment, run_git
from shiftboss.orchestrator.worktrees.salvage import newest_salvage

WorkKind = Literal["work tree", "branch", "salvage", "claim", "landed"]
# Settings of a repository could run other programs.
_DIFF: Final = ("diff", "--no-ext-diff", "--no-textconv", "--find-renames")

_NO_FILTER: Final = {"clean": "", "smudge": "", "process": "", "required": "false"}


class NoWork(NotFound):
    code = "no_work"
    title = "There is no work to show"


@dataclass(frozen=True, slots=True)
class TaskWork:
    """`old` and `new` are commits; for a work tree `new` is empty and `checkout` is set."""

    kind: WorkKind
    repo: GitRepo
    old: str
    new: str = ""
    checkout: GitCheckout | None = None

    @property
    def source(self) -> str:
        """Where the work is, for people."""
        if self.checkout is not None:
            return f"the work tree {self.checkout.folder}"
        return f"{self.kind} {self.new[:12]}"


@dataclass(frozen=True, slots=True)
class DiffCommand:
    """A git command that can be run with this environment in this folder."""

    arguments: list[str]
    folder: Path
    variables: Mapping[str, str] = field(repr=False)

    def argv(self, *options: str) -> list[str]:
        command, *rest = self.arguments
        return ["git", "--no-pager", *SETTINGS, command, *options, *rest]

    @property
    def environment(self) -> dict[str, str]:
        return git_environment(self.variables)


async def find_work(
    handoff: Mapping[str, Any], task: Mapping[str, Any], *, of_claim: bool
) -> TaskWork:
    """What to show of a task: what landed, else what was claimed and is not refused, else the work
    so far. With `of_claim` always the newest claim. Raises NoWork."""
    repo, base = await GitRepo.at(Path(handoff["repo"])), str(handoff["base_commit"])
    claim = handoff["last_claim"]
    if of_claim and claim is None:
        raise NoWork(
            f"{task['bead_id']} has no claim yet",
            field="claim",
            hint=f"show its work so far: shiftboss diff {_named(task)}",
        )
    has_landed = task.get("landed_commit") is not None
    if claim is not None and (of_claim or has_landed or claim["state"] != "refused"):
        work = await _claimed(repo, base, claim["commit"], task.get("landed_commit"))
        if work is not None:
            return work
    work = await _unclaimed(repo, base, str(handoff["branch"]), str(task["bead_id"]))
    if work is None:
        raise NoWork(
            f"{task['bead_id']} has no work: no work tree, no branch {handoff['branch']} and no "
            f"saved work in {handoff['repo']}",
            field="task",
            hint=f"see its state: shiftboss task show {_named(task)}",
        )
    return work


def _named(task: Mapping[str, Any]) -> str:
    return f"{task['bead_id']} --swarm {task['swarm_id']}"


async def _claimed(repo: GitRepo, base: str, commit: str, landed: str | None) -> TaskWork | None:
    """None if the commit is gone: nothing keeps a refused one, or one that landed as another."""
    kind: WorkKind = "claim" if landed is None else "landed"
    if (claimed := await repo.commit_of(commit)) is not None:
        return TaskWork(kind, repo, base, claimed)
    if landed is not None and (parent := await repo.commit_of(f"{landed}^1")) is not None:
        return TaskWork(kind, repo, parent, landed)
    return None


async def _unclaimed(repo: GitRepo, base: str, branch: str, bead_id: str) -> TaskWork | None:
    checkout = (await repo.checkouts_by_branch()).get(branch)
    if checkout is not None and await asyncio.to_thread(checkout.folder.is_dir):
        return TaskWork("work tree", repo, base, checkout=checkout)
    tip = await repo.branch_tip(branch)
    if tip is not None and tip != base:
        return TaskWork("branch", repo, base, tip)
    saved = await newest_salvage(repo, bead_id)
    return None if saved is None else TaskWork("salvage", repo, base, saved)


async def _without_programs(folder: Path, variables: Mapping[str, str]) -> dict[str, str]:
    """Variables that keep git from running the filters of its settings, and from fetching missing
    objects. The settings of a repository and the `.gitattributes` of an agent choose the programs
    for both. Not as options: the name of a filter may contain a `=`."""
    listed = await run_git(
        ["config", "--null", "--name-only", "--get-regexp", r"^filter\."],
        folder,
        environment=variables,
    )
    keys = listed.out.decode(errors="surrogateescape").split("\0")[:-1]
    filters = dict.fromkeys(key.rpartition(".")[0] for key in keys if key.count(".") > 1)
    settings = {f"{name}.{key}": value for name in filters for key, value in _NO_FILTER.items()}
    numbered = {"GIT_CONFIG_COUNT": str(len(settings)), "GIT_NO_LAZY_FETCH": "1"}
    for number, (key, value) in enumerate(settings.items()):
        numbered |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return numbered


@asynccontextmanager
async def diff_command(work: TaskWork) -> AsyncIterator[DiffCommand]:
    """The command that prints the difference, for as long as the block lasts."""
    if work.checkout is None:
        variables = {"GIT_DIR": str(work.repo.common), "GIT_WORK_TREE": str(work.repo.common)}
        variables |= await _without_programs(work.repo.common, variables)
        yield DiffCommand([*_DIFF, work.old, work.new, "--"], work.repo.common, variables)
        return
    folder, admin = work.checkout.folder, work.checkout.admin
    private = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="shiftboss-diff-"))
    variables = {"GIT_DIR": str(admin), "GIT_WORK_TREE": str(folder)}
    variables |= await _without_programs(folder, variables)
    variables["GIT_INDEX_FILE"] = str(private / "index")
    try:
        with contextlib.suppress(OSError):  # without an index, all files are new ones
            await asyncio.to_thread(shutil.copy2, admin / "index", private / "index")
        added = await run_git(
            ["add", "--intent-to-add", "--all", "--ignore-errors", "--", "."],
            folder,
            environment=variables,
        )
        if added.code != 0 and not os.access(private / "index", os.R_OK):
            checked(added, f"the files of {folder}")
        yield DiffCommand([*_DIFF, work.old, "--"], folder, variables)
    finally:
        await asyncio.to_thread(shutil.rmtree, private, ignore_errors=True)
