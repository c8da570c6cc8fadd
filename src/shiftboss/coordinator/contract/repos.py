"""Use cases of repos: lock one for a task, and show which are locked, blocked or halted."""

from __future__ import annotations

from typing import Any

from shiftboss.coordinator.contract.attempts import attempt_of, ci_view, milestone_of
from shiftboss.coordinator.contract.locks import lock_to_pass, pass_lock
from shiftboss.coordinator.contract.policy import ActivePolicy
from shiftboss.errors import RepoBlocked
from shiftboss.protocol.contract.contract_requests import CanSpawnAnswer, ReposAnswer
from shiftboss.protocol.events import EventKind
from shiftboss.rules.access.actors import SERVER, Actor
from shiftboss.rules.contract.records import RepoLock
from shiftboss.store.port import Transaction

_OF_ANOTHER_SWARM = "a failure in another swarm"


def lock_repo(
    tx: Transaction,
    policy: ActivePolicy,
    repo: str,
    swarm_id: str,
    task_id: str,
    now_ms: int,
    merges: str | None = None,
) -> None:
    """Lock the repo for the task. Raises RepoBlocked if the rules of the contract forbid it.

    This runs in the transaction of the spawn, so that only one of two concurrent spawns gets the
    repo. A task that `merges` accepted work takes over its lock.
    """
    tx.hold_repos()
    policy.check_current(tx)
    if has_or_may_get(tx, policy, repo, swarm_id, task_id, merges):
        return
    merged_lock = lock_to_pass(tx, repo, swarm_id, merges) if merges is not None else None
    if merged_lock is not None:
        pass_lock(tx, merged_lock, task_id, merges, now_ms)
    else:
        tx.add_repo_lock(RepoLock(repo, swarm_id, task_id, now_ms))
        tx.add_event(
            swarm_id,
            EventKind.REPO_LOCKED,
            now_ms,
            {"repo": repo, "bead_id": task_id},
            task_id=task_id,
        )


def has_or_may_get(
    tx: Transaction,
    policy: ActivePolicy,
    repo: str,
    swarm_id: str,
    task_id: str,
    merges: str | None = None,
) -> bool:
    """True if the task has the repo, False if it may get it. Raises RepoBlocked. The lock of the
    work that it `merges` does not block it."""
    policy.repo(repo)
    own_lock = tx.repo_lock_of_task(swarm_id, task_id)
    if own_lock is not None and own_lock.repo == repo:
        return True
    if own_lock is not None:
        raise RepoBlocked(
            f"{task_id} already works on {own_lock.repo}; nothing was changed",
            field="repo",
            hint="a task works on one repo; split it into one task per repo",
        )
    blockers = blockers_of(tx, policy, repo)
    merged_lock = lock_to_pass(tx, repo, swarm_id, merges) if merges is not None else None
    if merged_lock is not None:
        blockers = [blocker for blocker in blockers if not _is_lock(blocker, merged_lock)]
    if blockers:
        raise RepoBlocked(
            f"{repo} cannot be worked on now: {_explain(blockers)}; nothing was changed",
            field="repo",
            hint="wait until that work is accepted; `shiftboss repo list` shows the locks",
            facts={"blockers": blockers},
        )
    return False


def _is_lock(blocker: dict[str, Any], lock: RepoLock) -> bool:
    key = (blocker["repo"], blocker["swarm_id"], blocker["bead_id"])
    return blocker["rule"] != "halted" and key == (lock.repo, lock.swarm_id, lock.task_id)


def blockers_of(tx: Transaction, policy: ActivePolicy, repo: str) -> list[dict[str, Any]]:
    """The current blockers of work on the repo; empty if there are none."""
    locks = {lock.repo: lock for lock in tx.repo_locks()}
    active = [name for name in locks if name in policy]
    chain = policy.settings.locking == "chain"
    blockers: list[dict[str, Any]] = [
        {
            "repo": blocker.repo,
            "rule": blocker.rule,
            "reason": str(blocker),
            "swarm_id": locks[blocker.repo].swarm_id,
            "bead_id": locks[blocker.repo].task_id,
        }
        for blocker in policy.graph.blockers(repo, active, chain=chain)
    ]
    blockers += [
        {
            "repo": repo,
            "rule": "halted",
            "reason": f"halt {halt.halt_id}: {halt.reason}",
            "swarm_id": halt.swarm_id,
            "bead_id": halt.task_id,
        }
        for halt in tx.halts_in_force()
        if repo in halt.repos
    ]
    red = {state.repo: state for state in tx.repo_states() if state.state == "red"}
    blockers += [
        {
            "repo": name,
            "rule": "dependency_is_red",
            "reason": f"{name} is a dependency whose CI is red at {red[name].sha[:12]}",
            "swarm_id": red[name].swarm_id,
            "bead_id": red[name].task_id,
        }
        for name in (policy.upstream(repo) if chain else policy.graph.dependencies(repo))
        if name in red
    ]
    return blockers


def _explain(blockers: list[dict[str, Any]]) -> str:
    return "; ".join(
        blocker["reason"] + (f" ({blocker['bead_id']})" if blocker["bead_id"] else "")
        for blocker in blockers
    )


def can_spawn(
    tx: Transaction, policy: ActivePolicy, repo: str, reader: Actor = SERVER
) -> CanSpawnAnswer:
    policy.repo(repo)
    blockers = [_shown_to(reader, blocker) for blocker in blockers_of(tx, policy, repo)]
    return CanSpawnAnswer(
        repo=repo,
        can_spawn=not blockers,
        reason=_explain(blockers) if blockers else None,
        blockers=blockers,
    )


def _shown_to(reader: Actor, blocker: dict[str, Any]) -> dict[str, Any]:
    """A reader that is limited to a swarm does not learn what is done in others."""
    if reader.sees(blocker["swarm_id"]):
        return blocker
    hidden: dict[str, str | None] = {"swarm_id": None, "bead_id": None}
    if blocker["rule"] == "halted":
        hidden["reason"] = _OF_ANOTHER_SWARM
    return blocker | hidden


def _followed(tx: Transaction, lock: RepoLock) -> dict[str, Any] | None:
    """The commit whose CI the server follows for a repo, and when it was pushed."""
    tracking = tx.tracking(lock.swarm_id, lock.task_id)
    if tracking is None:
        return None
    return (ci_view(tracking) or {}) | {"pushed_at": tracking.pushed_at_ms}


def _worker(tx: Transaction, lock: RepoLock | None) -> dict[str, str | None]:
    """The worker that is active on a repo, and its milestone."""
    held = tx.assignment(lock.swarm_id, lock.task_id) if lock is not None else None
    if held is None:
        return {"worker": None, "milestone": None}
    return {"worker": held.worker, "milestone": milestone_of(held, attempt_of(tx, held))}


def view(tx: Transaction, policy: ActivePolicy, reader: Actor = SERVER) -> ReposAnswer:
    """A reader that is limited to a swarm learns of the others only that a repo is locked."""
    locks = {lock.repo: lock for lock in tx.repo_locks()}
    states = {state.repo: state for state in tx.repo_states()}
    repos = []
    for number, phase in enumerate(policy.graph.phases(), start=1):
        for name in phase:
            lock, state = locks.get(name), states.get(name)
            seen = lock if lock is not None and reader.sees(lock.swarm_id) else None
            repos.append(
                {
                    "repo": name,
                    "phase": number,
                    "depends_on": policy.graph.dependencies(name),
                    "locked_by": seen.task_id if seen else None,
                    "locked_since": lock.since_ms if lock else None,
                    "swarm_id": seen.swarm_id if seen else None,
                    **_worker(tx, seen),
                    "tracking": _followed(tx, seen) if seen else None,
                    "ci": state.state if state else None,
                    "sha": state.sha if state else None,
                    "run_id": state.run_id if state else None,
                }
            )
    halts = [
        halt._asdict()
        if reader.sees(halt.swarm_id)
        else halt._asdict() | {"reason": _OF_ANOTHER_SWARM, "swarm_id": None, "task_id": None}
        for halt in tx.halts_in_force()
    ]
    return ReposAnswer(repos=repos, halts=halts)
