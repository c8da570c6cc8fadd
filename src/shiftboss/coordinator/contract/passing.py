"""A lock that passes over: from accepted work that does not fit on its target any more to the task
that brings it there, and back when that task does not."""

from __future__ import annotations

from shiftboss.errors import Conflict, RepoBlocked, UnknownTask
from shiftboss.protocol.events import EventKind
from shiftboss.rules.contract.records import RepoLock
from shiftboss.store.port import Transaction

_GIVEN_UP = ("failed", "cancelled")


def lock_to_pass(tx: Transaction, repo: str, swarm_id: str, merges: str) -> RepoLock | None:
    """The lock that the accepted task has on the repo, or a former merge of it that was given up.
    None: the operator has released it. Raises where there is nothing to bring in."""
    _check_unlanded(tx, swarm_id, merges)
    lock = tx.repo_lock_of_task(swarm_id, merges) or _of_given_up(tx, swarm_id, merges)
    if lock is not None and lock.repo != repo:
        raise RepoBlocked(
            f"{merges} works on {lock.repo}, not on {repo}; nothing was changed",
            field="merges",
            hint="work is brought in where it was done",
        )
    return lock


def _check_unlanded(tx: Transaction, swarm_id: str, task_id: str) -> None:
    task, landing = tx.task(swarm_id, task_id), tx.landing(swarm_id, task_id)
    if task is None:
        raise UnknownTask(task_id, "merges")
    if task.status != "done" or landing is None:
        raise Conflict(
            f"{task_id} was not accepted: there is nothing to bring in; nothing was changed",
            field="merges",
            hint="work is brought in when it has a receipt; see swarm_complete",
        )
    if landing.landed_commit is not None:
        raise Conflict(
            f"{task_id} has landed as {landing.landed_commit}; nothing was changed",
            field="merges",
            hint="there is nothing left to bring in",
            facts={"landed_commit": landing.landed_commit},
        )


def _of_given_up(tx: Transaction, swarm_id: str, merges: str) -> RepoLock | None:
    """Of a merge that failed: what it has pushed is on a branch of its own, and harms nobody."""
    for lock in tx.repo_locks():
        if (lock.swarm_id, lock.merges) == (swarm_id, merges):
            task = tx.task(swarm_id, lock.task_id)
            return lock if task is None or task.status in _GIVEN_UP else None
    return None


def pass_lock(
    tx: Transaction, lock: RepoLock, task_id: str, merges: str | None, now_ms: int
) -> None:
    tx.release_repo(lock.repo)
    tx.add_repo_lock(RepoLock(lock.repo, lock.swarm_id, task_id, now_ms, merges))
    tx.add_event(
        lock.swarm_id,
        EventKind.REPO_LOCKED,
        now_ms,
        {"repo": lock.repo, "bead_id": task_id, "passed_from": lock.task_id},
        task_id=task_id,
    )


def pass_back(tx: Transaction, lock: RepoLock, now_ms: int) -> bool:
    """To the work that was to be brought in, while that has not landed. False: there is none."""
    landing = tx.landing(lock.swarm_id, lock.merges) if lock.merges is not None else None
    if landing is None or landing.landed_commit is not None:
        return False
    pass_lock(tx, lock, landing.task_id, None, now_ms)
    return True


def take_back(tx: Transaction, swarm_id: str, task_id: str, now_ms: int) -> None:
    """The work has landed by itself, after all: a merge of it that was given up has no more use of
    the lock."""
    lock = _of_given_up(tx, swarm_id, task_id)
    if lock is not None:
        pass_lock(tx, lock, task_id, None, now_ms)
