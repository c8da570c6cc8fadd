"""Who may write what: the paths of tasks in flight, and what is in whose way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shiftboss.errors import OwnershipOverlap
from shiftboss.protocol.handoffs import WorkerHandoff
from shiftboss.rules.claims.handoffs import Reservation
from shiftboss.rules.paths.overlap import overlaps
from shiftboss.rules.tasks.tasks import Task
from shiftboss.store.port import Transaction

# Enough to understand a collision.
OVERLAPS_NAMED_MAX = 20


def reserve(tx: Transaction, wanted: Reservation, now_ms: int, field: str = "files") -> None:
    """The task owns these paths from now on, unless another in flight owns some of them."""
    tx.hold_repo(wanted.repo)
    held = holders(tx, wanted)
    if held:
        raise OwnershipOverlap(
            f"{wanted.task_id} would own what others own: {_explained(held)}; nothing was changed",
            field=field,
            hint="wait until they are done, make one depend on the other, or cut the files apart",
            facts={"holders": held},
        )
    tx.reserve(wanted, now_ms)


def own_again(tx: Transaction, task: Task, now_ms: int) -> None:
    """A task that had failed had let go of its files."""
    if task.contract_version is not None and task.status == "failed":
        reserve_again(tx, task.swarm_id, task.task_id, now_ms)


def reserve_again(tx: Transaction, swarm_id: str, task_id: str, now_ms: int) -> None:
    handoff = tx.handoff(swarm_id, task_id)
    if handoff is not None:
        patterns = WorkerHandoff.model_validate_json(handoff.body).contract.files_owned
        reserve(tx, Reservation(swarm_id, task_id, handoff.repo_id, patterns), now_ms, "bead_id")


def holders(tx: Transaction, wanted: Reservation) -> list[dict[str, Any]]:
    """The other tasks in flight that own some of the paths, with the patterns that meet."""
    found = []
    for other in tx.reservations_of_repo(wanted.repo):
        if (other.swarm_id, other.task_id) != (wanted.swarm_id, wanted.task_id):
            found += _meeting(wanted.patterns, other)
    return found[:OVERLAPS_NAMED_MAX]


def _meeting(patterns: Sequence[str], other: Reservation) -> list[dict[str, Any]]:
    return [
        {
            "swarm_id": other.swarm_id,
            "bead_id": other.task_id,
            "wanted": overlap.left,
            "owned": overlap.right,
            "example": overlap.example,
        }
        # Names that differ in case only are one file on some machines.
        for overlap in overlaps(patterns, other.patterns, case_insensitive=True)
    ]


def owned(tx: Transaction, repo: str) -> list[dict[str, Any]]:
    return [
        {"swarm_id": one.swarm_id, "bead_id": one.task_id, "owned": one.patterns}
        for one in tx.reservations_of_repo(repo)
    ]


def _explained(held: list[dict[str, Any]]) -> str:
    return "; ".join(
        f"{one['bead_id']} owns {one['owned']}, which overlaps {one['wanted']}: "
        f"both cover {one['example']}"
        for one in held[:3]
    )
