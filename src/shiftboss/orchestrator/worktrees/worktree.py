"""A work tree of an attempt, and how it is found again after a crash.

Git keeps a folder for every work tree in the repository, and in it why the tree is locked. Ours are
locked from the first moment, and the reason says all that we have to know of them.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from shiftboss.orchestrator.git.checkouts import UserCheckout

_MARK: Final = "shiftboss "
_NAME: Final = re.compile(r"(.+)\.([0-9]+)")
_HEAD: Final = "ref: refs/heads/"


@dataclass(frozen=True, slots=True)
class Worktree:
    """`path` is where the agent works, `common` the git folder that all trees of the repository
    share, `admin` what git keeps of this tree. `start` is the commit that it began at; `salvaged`
    are refs with what earlier attempts left behind. `environment` is what its agents and commands
    see on top of their own. Of a tree that was found, words may be empty that nobody knows."""

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
    def checkout(self) -> UserCheckout:
        return UserCheckout(self.path, self.admin)


def lock_reason(tree: Worktree) -> str:
    """People see it in `git worktree list --verbose`."""
    words = {
        "path": str(tree.path),
        "branch": tree.branch,
        "target": tree.target,
        "base": tree.base,
        "start": tree.start,
    }
    return _MARK + json.dumps(words)


def found_trees(common: Path, folder: Path) -> Iterator[Worktree]:
    """Those of the repository that lie in `folder`/SWARM, also when they are half made, or gone."""
    try:
        admins = sorted((common / "worktrees").iterdir())
    except FileNotFoundError:
        return
    for admin in admins:
        words = _words(admin)
        path = Path(words["path"])
        named = _NAME.fullmatch(path.name)
        if named is None or path.parent.parent != folder:
            continue
        yield Worktree(
            path=path,
            common=common,
            admin=admin,
            swarm_id=path.parent.name,
            bead_id=named[1],
            epoch=int(named[2]),
            branch=words.get("branch") or _checked_out(admin),
            target=words.get("target", ""),
            base=words.get("base", ""),
            start=words.get("start", ""),
        )


def admin_of(common: Path, path: Path) -> Path | None:
    """What git keeps of the tree at `path`."""
    try:
        admins = list((common / "worktrees").iterdir())
    except FileNotFoundError:
        return None
    return next((one for one in admins if Path(_words(one)["path"]) == path), None)


def _words(admin: Path) -> dict[str, str]:
    """Of the lock; of a tree that somebody has unlocked, where git says it is."""
    reason = _read(admin / "locked")
    if reason.startswith(_MARK):
        try:
            words: Any = json.loads(reason.removeprefix(_MARK))
            return {str(name): str(value) for name, value in words.items()} | {
                "path": words["path"]
            }
        except (ValueError, KeyError, AttributeError):
            pass  # somebody has written another reason
    file = _read(admin / "gitdir")
    return {"path": os.path.dirname(os.path.normpath(admin / file)) if file else ""}  # noqa: PTH120


def _checked_out(admin: Path) -> str:
    head = _read(admin / "HEAD")
    return head.removeprefix(_HEAD) if head.startswith(_HEAD) else ""


def _read(file: Path) -> str:
    try:
        return file.read_text(errors="surrogateescape").strip()
    except OSError:
        return ""
