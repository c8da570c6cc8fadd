"""The work tree of an attempt, and how it is found again after a crash.

Git has a folder for every work tree in the repository, with the reason why the work tree is locked.
Ours are locked from the start, and the reason contains everything needed to recover them.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from shiftboss.orchestrator.git.checkouts import GitCheckout

_PREFIX: Final = "shiftboss "
_NAME: Final = re.compile(r"(.+)\.([0-9]+)")
_BRANCH: Final = "ref: refs/heads/"


@dataclass(frozen=True, slots=True)
class Worktree:
    """`path` is where the agent works, `common` the git folder that all work trees of the
    repository share, `admin` the git folder of this one. `start` is the commit that it started at;
    `salvaged` are refs with the work that earlier attempts left behind. `environment` are
    additional variables for its agents and commands. In a work tree that was found after a crash,
    unknown values are empty."""

    path: Path
    common: Path
    admin: Path
    swarm_id: str
    bead_id: str
    epoch: int
    branch: str = ""
    target: str = ""
    base: str = ""
    start: str = ""
    salvaged: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict, repr=False)

    @property
    def name(self) -> str:
        return f"{self.bead_id}.{self.epoch}"

    @property
    def checkout(self) -> GitCheckout:
        return GitCheckout(self.path, self.admin)


def lock_reason(worktree: Worktree) -> str:
    """`git worktree list --verbose` shows it."""
    values = {
        "path": str(worktree.path),
        "branch": worktree.branch,
        "target": worktree.target,
        "base": worktree.base,
        "start": worktree.start,
    }
    return _PREFIX + json.dumps(values)


def find_worktrees(common: Path, folder: Path) -> Iterator[Worktree]:
    """The work trees of a repository that are in `folder`/SWARM, including those that were only
    partly created or removed."""
    try:
        admins = sorted((common / "worktrees").iterdir())
    except FileNotFoundError:
        return
    for admin in admins:
        values = _read_lock(admin)
        path = Path(values["path"])
        name = _NAME.fullmatch(path.name)
        if name is None or path.parent.parent != folder:
            continue
        yield Worktree(
            path=path,
            common=common,
            admin=admin,
            swarm_id=path.parent.name,
            bead_id=name[1],
            epoch=int(name[2]),
            branch=values.get("branch") or _checked_out_branch(admin),
            target=values.get("target", ""),
            base=values.get("base", ""),
            start=values.get("start", ""),
        )


def find_admin(common: Path, path: Path) -> Path | None:
    """The git folder of the work tree at `path`."""
    try:
        admins = list((common / "worktrees").iterdir())
    except FileNotFoundError:
        return None
    return next((admin for admin in admins if Path(_read_lock(admin)["path"]) == path), None)


def _read_lock(admin: Path) -> dict[str, str]:
    """The values in the lock reason. If somebody has unlocked the work tree, only its path."""
    reason = _read(admin / "locked")
    if reason.startswith(_PREFIX):
        try:
            values: Any = json.loads(reason.removeprefix(_PREFIX))
            texts = {str(name): str(value) for name, value in values.items()}
            if "path" in texts:
                return texts
        except (ValueError, AttributeError, RecursionError):
            pass  # somebody has written another reason
    file = _read(admin / "gitdir")
    return {"path": os.path.dirname(os.path.normpath(admin / file)) if file else ""}  # noqa: PTH120


def _checked_out_branch(admin: Path) -> str:
    head = _read(admin / "HEAD")
    return head.removeprefix(_BRANCH) if head.startswith(_BRANCH) else ""


def _read(file: Path) -> str:
    try:
        return file.read_text(errors="surrogateescape").strip()
    except OSError:
        return ""
