"""Ownership of paths: which task in flight may write which files, and where two overlap."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shiftboss.errors import OwnershipOverlap
from shiftboss.protocol.handoffs import WorkerHandoff
from shiftboss.rules.handoffs.handoffs import Reservation, has_lapsed, may_lapse_elsewhere
from shiftboss.rules.paths.overlap import TooMuchWorkError, Work
from shiftboss.rules.paths.overlap import overlaps as find_overlaps
from shiftboss.rules.tasks.tasks import Task
from shiftboss.store.port import Transaction

# Enough to understand a conflict.
OVERLAPS_NAMED_MAX = 20
# About a second, in which all other writes wait.
COMPARISON_STEPS_MAX = 300_000


def reserve(tx: Transaction, wanted: Reservation, now_ms: int, field: str = "files") -> None:
    """Reserve the paths for the task. Raises OwnershipOverlap if a task in flight owns some."""
    tx.hold_repo(wanted.repo)
    remaining = _release_lapsed(tx, wanted, now_ms, field)
    overlaps = [overlap | {"status": _status(tx, overlap)} for overlap in remaining]
    if overlaps:
        raise OwnershipOverlap(
            f"{wanted.task_id} would own files of other tasks: {_explain(wanted, overlaps)}; "
            "nothing was changed",
            field=field,
            hint=_hint(tx, wanted, overlaps[0]),
            facts={"holders": overlaps},
        )
    tx.reserve(wanted, now_ms)


def _release_lapsed(
    tx: Transaction, wanted: Reservation, now_ms: int, field: str
) -> list[dict[str, Any]]:
    """Release the wanted files of tasks in other swarms that have lost them; returns the overlaps
    that remain. Not only the first overlaps are checked: the next ones show when these are
    gone."""
    work = Work(COMPARISON_STEPS_MAX)
    while True:
        overlaps = holders(tx, wanted, field, work)
        lapsed = {
            (swarm_id, task_id)
            for overlap in overlaps
            if (swarm_id := overlap["swarm_id"]) != wanted.swarm_id
            and (task := tx.task(swarm_id, task_id := overlap["bead_id"])) is not None
            and has_lapsed(task.status, now_ms - task.updated_at_ms)
        }
        if not lapsed:
            return overlaps
        for swarm_id, task_id in lapsed:
            tx.release(swarm_id, task_id)


def _status(tx: Transaction, overlap: dict[str, Any]) -> str:
    task = tx.task(overlap["swarm_id"], overlap["bead_id"])
    return "active" if task is None else task.status  # a packet has no task


def _hint(tx: Transaction, wanted: Reservation, overlap: dict[str, Any]) -> str:
    swarm_id, task_id = overlap["swarm_id"], overlap["bead_id"]
    if swarm_id == wanted.swarm_id:
        return "wait until they are done, add a dependency, or split the files"
    task, run = f"{task_id} --swarm {swarm_id}", tx.plan_run(swarm_id)
    first = ""
    if overlap["status"] == "active":  # its run is at work, and a second one would be refused
        first = f"see what it is doing: `shiftboss why {task}`; or "
    elif run is not None:
        first = f"finish it: `{run.command}`; or "
    return f"{first}free its files: `shiftboss task cancel {task}`"


def reserve_if_released(tx: Transaction, task: Task, now_ms: int) -> None:
    """Reserve the files of a task again that has released them: it had failed, was cancelled, or
    its run has ended. Without a server no worker would use them, so they stay free until the task
    is handed out."""
    if task.contract_version is None or tx.polls.is_offline:
        return
    may_lapse = may_lapse_elsewhere(now_ms - task.updated_at_ms)
    if may_lapse and (handoff := tx.handoff(task.swarm_id, task.task_id)) is not None:
        tx.hold_repo(handoff.repo_id)  # another swarm may be releasing its files right now
    if not tx.has_reservation(task.swarm_id, task.task_id):
        reserve_again(tx, task.swarm_id, task.task_id, now_ms)


def try_reserve(tx: Transaction, task: Task, now_ms: int) -> OwnershipOverlap | None:
    """Reserve the files of a task that is about to be handed out, if it has released them. Returns
    why that is not possible."""
    try:
        reserve_if_released(tx, task, now_ms)
    except OwnershipOverlap as error:
        return error
    return None


def reserve_again(tx: Transaction, swarm_id: str, task_id: str, now_ms: int) -> None:
    handoff = tx.handoff(swarm_id, task_id)
    if handoff is not None:
        patterns = WorkerHandoff.model_validate_json(handoff.body).contract.files_owned
        reserve(tx, Reservation(swarm_id, task_id, handoff.repo_id, patterns), now_ms, "bead_id")


def holders(
    tx: Transaction, wanted: Reservation, field: str = "files", work: Work | None = None
) -> list[dict[str, Any]]:
    """Other tasks in flight that own some of the paths, with the overlapping patterns. Raises
    OwnershipOverlap if it would take too long to find out."""
    work = work or Work(COMPARISON_STEPS_MAX)
    overlaps: list[dict[str, Any]] = []
    for other in tx.reservations_of_repo(wanted.repo):
        if (other.swarm_id, other.task_id) == (wanted.swarm_id, wanted.task_id):
            continue
        try:
            overlaps += _overlaps_with(wanted.patterns, other, work)
        except TooMuchWorkError:
            raise OwnershipOverlap(
                f"the files of {wanted.task_id or 'the request'} and those of {other.task_id} of "
                f"the swarm {other.swarm_id} have too many wildcards to be compared; nothing was "
                "changed",
                field=field,
                hint="use fewer wildcards, or name folders instead",
            ) from None
        if len(overlaps) >= OVERLAPS_NAMED_MAX:
            break
    return overlaps[:OVERLAPS_NAMED_MAX]


def _overlaps_with(patterns: Sequence[str], other: Reservation, work: Work) -> list[dict[str, Any]]:
    return [
        {
            "swarm_id": other.swarm_id,
            "bead_id": other.task_id,
            "wanted": overlap.left,
            "owned": overlap.right,
            "example": overlap.example,
        }
        # On some file systems, names that differ only in case are one file.
        for overlap in find_overlaps(patterns, other.patterns, case_insensitive=True, work=work)
    ]


def owned(tx: Transaction, repo: str) -> list[dict[str, Any]]:
    return [
        {"swarm_id": holder.swarm_id, "bead_id": holder.task_id, "owned": holder.patterns}
        for holder in tx.reservations_of_repo(repo)
    ]


def _explain(wanted: Reservation, overlaps: list[dict[str, Any]]) -> str:
    return "; ".join(
        f"{_holder(wanted, overlap)} owns {_overlap_text(overlap)}" for overlap in overlaps[:3]
    )


def _overlap_text(overlap: dict[str, Any]) -> str:
    """`example` says something new only if it is neither of the two patterns."""
    patterns = owned, wanted = overlap["owned"], overlap["wanted"]
    text = f"{owned}, which overlaps with {wanted}" if owned != wanted else f"{owned} as well"
    return text if overlap["example"] in patterns else f"{text} (for example {overlap['example']})"


def _holder(wanted: Reservation, overlap: dict[str, Any]) -> str:
    if overlap["swarm_id"] == wanted.swarm_id:
        return str(overlap["bead_id"])
    return f"{overlap['bead_id']} of the swarm {overlap['swarm_id']} ({overlap['status']})"
