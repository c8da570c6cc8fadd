"""Ownership of paths: which task in flight may write which files, and where two overlap."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shiftboss.errors import OwnershipOverlap
from shiftboss.protocol.handoffs import WorkerHandoff
from shiftboss.rules.claims.handoffs import Reservation
from shiftboss.rules.paths.overlap import overlaps as find_overlaps
from shiftboss.rules.tasks.tasks import Task
from shiftboss.store.port import Transaction

# Enough to understand a conflict.
OVERLAPS_NAMED_MAX = 20


def reserve(tx: Transaction, wanted: Reservation, now_ms: int, field: str = "files") -> None:
    """Reserve the paths for the task. Raises OwnershipOverlap if a task in flight owns some."""
    tx.hold_repo(wanted.repo)
    overlaps = holders(tx, wanted)
    if overlaps:
        raise OwnershipOverlap(
            f"{wanted.task_id} would own files of other tasks: {_explain(overlaps)}; "
            "nothing was changed",
            field=field,
            hint="wait until they are done, add a dependency, or split the files",
            facts={"holders": overlaps},
        )
    tx.reserve(wanted, now_ms)


def reserve_if_released(tx: Transaction, task: Task, now_ms: int) -> None:
    """Reserve the files of a task again that released them: it had failed or was cancelled."""
    if task.contract_version is not None and task.status in ("failed", "cancelled"):
        reserve_again(tx, task.swarm_id, task.task_id, now_ms)


def reserve_again(tx: Transaction, swarm_id: str, task_id: str, now_ms: int) -> None:
    handoff = tx.handoff(swarm_id, task_id)
    if handoff is not None:
        patterns = WorkerHandoff.model_validate_json(handoff.body).contract.files_owned
        reserve(tx, Reservation(swarm_id, task_id, handoff.repo_id, patterns), now_ms, "bead_id")


def holders(tx: Transaction, wanted: Reservation) -> list[dict[str, Any]]:
    """Other tasks in flight that own some of the paths, with the overlapping patterns."""
    overlaps = []
    for other in tx.reservations_of_repo(wanted.repo):
        if (other.swarm_id, other.task_id) != (wanted.swarm_id, wanted.task_id):
            overlaps += _overlaps_with(wanted.patterns, other)
    return overlaps[:OVERLAPS_NAMED_MAX]


def _overlaps_with(patterns: Sequence[str], other: Reservation) -> list[dict[str, Any]]:
    return [
        {
            "swarm_id": other.swarm_id,
            "bead_id": other.task_id,
            "wanted": overlap.left,
            "owned": overlap.right,
            "example": overlap.example,
        }
        # On some file systems, names that differ only in case are one file.
        for overlap in find_overlaps(patterns, other.patterns, case_insensitive=True)
    ]


def owned(tx: Transaction, repo: str) -> list[dict[str, Any]]:
    return [
        {"swarm_id": holder.swarm_id, "bead_id": holder.task_id, "owned": holder.patterns}
        for holder in tx.reservations_of_repo(repo)
    ]


def _explain(overlaps: list[dict[str, Any]]) -> str:
    return "; ".join(
        f"{overlap['bead_id']} owns {overlap['owned']}, which overlaps with {overlap['wanted']} "
        f"(for example {overlap['example']})"
        for overlap in overlaps[:3]
    )
