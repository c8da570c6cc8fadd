"""Repo locks: how they pass from accepted work to its merge, and how repos are released.

A repo is released when its work is proven, when it never started, or by the operator.
"""

from __future__ import annotations

from shiftboss.coordinator.contract.cascade import record_repo_state
from shiftboss.errors import Conflict, RepoBlocked, UnknownTask
from shiftboss.protocol.contract.contract_requests import OperatorAnswer, ReleaseRepoRequest
from shiftboss.protocol.events import EventKind
from shiftboss.rules.contract.records import RepoLock
from shiftboss.rules.handoffs.handoffs import Handoff
from shiftboss.rules.runs.records import LandingRecord
from shiftboss.rules.tasks.tasks import Task
from shiftboss.store.port import Transaction

_ABANDONED = ("failed", "cancelled")


def lock_to_pass(tx: Transaction, repo: str, swarm_id: str, merges: str) -> RepoLock | None:
    """The lock of the accepted task that is to be merged, or of an abandoned merge of it. None if
    the operator has released it. Raises if there is nothing to merge."""
    _check_unlanded(tx, swarm_id, merges)
    lock = tx.repo_lock_of_task(swarm_id, merges) or _abandoned_merge_lock(tx, swarm_id, merges)
    if lock is not None and lock.repo != repo:
        raise RepoBlocked(
            f"{merges} works on {lock.repo}, not on {repo}; nothing was changed",
            field="merges",
            hint="merge work in the repo where it was done",
        )
    return lock


def _check_unlanded(tx: Transaction, swarm_id: str, task_id: str) -> None:
    task, landing = tx.task(swarm_id, task_id), tx.landing(swarm_id, task_id)
    if task is None:
        raise UnknownTask(task_id, "merges")
    if task.status != "done" or landing is None:
        raise Conflict(
            f"{task_id} was not accepted, so there is nothing to merge; nothing was changed",
            field="merges",
            hint="only work with a receipt can be merged; see swarm_complete",
        )
    if landing.landed_commit is not None:
        raise Conflict(
            f"{task_id} has already landed as {landing.landed_commit}; nothing was changed",
            field="merges",
            hint="there is nothing left to merge",
            facts={"landed_commit": landing.landed_commit},
        )


def _abandoned_merge_lock(tx: Transaction, swarm_id: str, merges: str) -> RepoLock | None:
    """The lock of a merge that failed or was cancelled. Its pushed work is on its own branch."""
    for lock in tx.repo_locks():
        if (lock.swarm_id, lock.merges) == (swarm_id, merges):
            task = tx.task(swarm_id, lock.task_id)
            return lock if task is None or task.status in _ABANDONED else None
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
    """Pass the lock back to the work that was to be merged, unless that has landed. False if there
    is none."""
    landing = tx.landing(lock.swarm_id, lock.merges) if lock.merges is not None else None
    if landing is None or landing.landed_commit is not None:
        return False
    pass_lock(tx, lock, landing.task_id, None, now_ms)
    return True


def reclaim_lock(tx: Transaction, swarm_id: str, task_id: str, now_ms: int) -> None:
    """The work has landed without its merge: take the lock back from an abandoned merge."""
    lock = _abandoned_merge_lock(tx, swarm_id, task_id)
    if lock is not None:
        pass_lock(tx, lock, task_id, None, now_ms)


def release_accepted(tx: Transaction, swarm_id: str, task_id: str, now_ms: int) -> None:
    """Release the repo of a task whose completion was accepted."""
    lock = tx.repo_lock_of_task(swarm_id, task_id)
    if lock is not None:
        _release(tx, lock, "the work is accepted", now_ms)


def release_landed(
    tx: Transaction, handoff: Handoff, landing: LandingRecord, ci: str | None, now_ms: int
) -> str | None:
    """Record the CI result of landed work, and release the repo if it passed. Why it stays locked;
    None if it was released."""
    lock = tx.repo_lock_of_task(landing.swarm_id, landing.task_id)
    if lock is None or not handoff.lands_later:
        return None
    record_repo_state(tx, handoff, landing, ci, now_ms)
    if ci == "passed":
        _release(tx, lock, "the work has landed", now_ms)
        return None
    named = f"the CI of {(landing.landed_commit or '')[:12]}"
    return f"{named} failed" if ci == "failed" else f"{named} has not passed yet"


def release_unstarted(tx: Transaction, swarm_id: str, task_id: str, now_ms: int) -> None:
    """Release the repo of a task that was cancelled before any work started. A task that was to
    merge other work passes the lock back to it."""
    lock = tx.repo_lock_of_task(swarm_id, task_id)
    if lock is not None and not pass_back(tx, lock, now_ms):
        _release(tx, lock, "cancelled before the work started", now_ms)


def lock_of(tx: Transaction, repo: str) -> RepoLock | None:
    return next((lock for lock in tx.repo_locks() if lock.repo == repo), None)


def release_by_operator(
    tx: Transaction, request: ReleaseRepoRequest, seen: RepoLock, now_ms: int
) -> OperatorAnswer:
    """`seen` is the lock that was read before: a use case locks its swarm first."""
    has_swarm = tx.take_swarm(seen.swarm_id) is not None
    tx.hold_repos()
    if lock_of(tx, request.repo) != seen:
        return OperatorAnswer(success=True, changed=False)
    if not has_swarm:
        tx.release_repo(seen.repo)
        return OperatorAnswer(success=True, changed=True)
    _check_not_running(tx, seen)
    _release(tx, seen, f"by the operator: {request.reason}", now_ms)
    # No task is left that could make it green; the operator takes responsibility.
    tx.forget_red(seen.repo)
    return OperatorAnswer(success=True, changed=True)


def _check_not_running(tx: Transaction, lock: RepoLock) -> None:
    """A running task would continue without a lock."""
    task = tx.task(lock.swarm_id, lock.task_id)
    if task is not None and task.status in ("queued", "active"):
        raise RepoBlocked(
            f"{lock.repo}: {lock.task_id} is {task.status}; nothing was changed",
            field="repo",
            hint=f"cancel {lock.task_id} first",
        )


def _release(tx: Transaction, lock: RepoLock, reason: str, now_ms: int) -> None:
    tx.release_repo(lock.repo)
    tx.add_event(
        lock.swarm_id,
        EventKind.REPO_RELEASED,
        now_ms,
        {"repo": lock.repo, "bead_id": lock.task_id, "reason": reason},
        task_id=lock.task_id,
    )


def check_has_lock(tx: Transaction, task: Task) -> None:
    """A task whose repo the operator has released must be spawned again first."""
    if task.contract_version is None:
        return
    handoff = tx.handoff(task.swarm_id, task.task_id)
    name = handoff.repo_name if handoff is not None else None
    if name is not None and tx.repo_lock_of_task(task.swarm_id, task.task_id) is None:
        raise RepoBlocked(
            f"{task.task_id} no longer has a lock on {name}; nothing was changed",
            field="bead_id",
            hint="spawn it again with the same request, which locks the repo if it is free",
        )
