"""What `shiftboss clean` lists: things that can be removed, and tasks whose work stays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from shiftboss.orchestrator.worktrees.worktree import Worktree

Kind = Literal[
    "work tree",
    "branch",
    "saved work",
    "landing",
    "squashed work",
    "attempt",
    "run",
    "reservation",
    "swarm",
]
TaskOutcome = Literal["landed", "cancelled", "accepted", "unfinished"]
OVER: Final = ("landed", "cancelled")


class WorkLocation(NamedTuple):
    """Where a task works, by the server's database. The records in the folder of a run do not tell:
    agents can write them."""

    repo: Path
    branch: str
    target: str


@dataclass(frozen=True, slots=True)
class Leftover:
    """`name` is a path or a ref, `why` the reason why it can be removed. `commit` is where a ref
    points to: one that has moved since is not deleted. A reservation is that of the task `bead_id`
    on the server; its name lists the files. A swarm is its rows in the database."""

    kind: Kind
    swarm_id: str
    name: str
    why: str
    size: int = 0
    repo: Path | None = None
    commit: str = ""
    worktree: Worktree | None = None
    bead_id: str = ""

    def as_json(self) -> dict[str, object]:
        return {
            "kind": self.kind.replace(" ", "_"),
            "swarm_id": self.swarm_id,
            "name": self.name,
            "bead_id": self.bead_id or None,
            "repo": None if self.repo is None else str(self.repo),
            "bytes": self.size,
            "why": self.why,
        }


@dataclass(frozen=True, slots=True)
class KeptWork:
    """What stays, why, and the command that helps."""

    swarm_id: str
    bead_id: str
    why: str
    command: str


def outcome_of(task: Mapping[str, Any] | None) -> TaskOutcome:
    """What became of a task. An unknown one counts as unfinished, so that nothing is lost."""
    if task is None:
        return "unfinished"
    if task.get("landed_commit") is not None:
        return "landed"
    if task["status"] == "cancelled":
        return "cancelled"
    return "accepted" if task["status"] == "done" else "unfinished"
