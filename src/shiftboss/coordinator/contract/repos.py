"""Use cases of repos: who works on which, who has to wait, what is halted."""

from __future__ import annotations

from typing import Any

from shiftboss.coordinator.contract.attempts import ci_view
from shiftboss.coordinator.contract.locks import lock_to_pass, pass_lock
from shiftboss.coordinator.contract.policy import ActivePolicy
from shiftboss.errors import RepoBlocked
from shiftboss.protocol.contract_requests import CanSpawnAnswer, ReposAnswer
from shiftboss.protocol.events import EventKind
from shiftboss.rules.contract.records import RepoLock
from shiftboss.store.port import Transaction


def lock_repo(
    tx: Transaction,
    policy: ActivePolicy,
    repo: str,
    swarm_id: str,
    task_id: str,
    now_ms: int,
    merges: str | None = None,
) -> None:
    """The task works on the repo from now on, unless the contract's rules say that it waits. In
    the same transaction as the spawn: of two that ask at once, one gets it. The lock of the
    accepted task that it `merges` passes over."""
    tx.hold_repos()
    if has_or_may_get(tx, policy, repo, swarm_id, task_id, merges):
        return
    passes = lock_to_pass(tx, repo, swarm_id, merges) if merges is not None else None
    if passes is not None:
        pass_lock(tx, passes, task_id, merges, now_ms)
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
    """True: the task has the repo. False: it may get it. Raises RepoBlocked. The lock that passes
    over to a task that `merges` is not in its way."""
    policy.repo(repo)
    mine = tx.repo_lock_of_task(swarm_id, task_id)
    if mine is not None and mine.repo == repo:
        return True
    if mine is not None:
        raise RepoBlocked(
            f"{task_id} works on {mine.repo} already; nothing was changed",
            field="repo",
            hint="a task works on one repo; cut it into one task for each",
        )
    standing = in_the_way(tx, policy, repo)
    passes = lock_to_pass(tx, repo, swarm_id, merges) if merges is not None else None
    if passes is not None:
        standing = [one for one in standing if not _is_lock(one, passes)]
    if standing:
        raise RepoBlocked(
            f"{repo} cannot be worked on now: {_explained(standing)}; nothing was changed",
            field="repo",
            hint="wait until that work is proven done; `shiftboss repo list` shows who works where",
            facts={"blockers": standing},
        )
    return False


def _is_lock(standing: dict[str, Any], lock: RepoLock) -> bool:
    found = (standing["repo"], standing["swarm_id"], standing["bead_id"])
    return standing["rule"] != "halted" and found == (lock.repo, lock.swarm_id, lock.task_id)


def in_the_way(tx: Transaction, policy: ActivePolicy, repo: str) -> list[dict[str, Any]]:
    """Why the repo cannot be worked on now; empty: it can."""
    locks = {lock.repo: lock for lock in tx.repo_locks()}
    active = [name for name in locks if name in policy]
    chain = policy.settings.locking == "chain"
    found: list[dict[str, Any]] = [
        {
            "repo": one.repo,
            "rule": one.rule,
            "reason": str(one),
            "swarm_id": locks[one.repo].swarm_id,
            "bead_id": locks[one.repo].task_id,
        }
        for one in policy.graph.blockers(repo, active, chain=chain)
    ]
    found += [
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
    found += [
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
    return found


def _explained(standing: list[dict[str, Any]]) -> str:
    return "; ".join(
        f"{one['reason']}" + (f" ({one['bead_id']})" if one["bead_id"] else "") for one in standing
    )


def can_spawn(tx: Transaction, policy: ActivePolicy, repo: str) -> CanSpawnAnswer:
    policy.repo(repo)
    standing = in_the_way(tx, policy, repo)
    return CanSpawnAnswer(
        repo=repo,
        can_spawn=not standing,
        reason=_explained(standing) if standing else None,
        blockers=standing,
    )


def _followed(tx: Transaction, lock: RepoLock) -> dict[str, Any] | None:
    """The commit whose CI the server follows for the work on a repo, and since when."""
    tracking = tx.tracking(lock.swarm_id, lock.task_id)
    if tracking is None:
        return None
    return (ci_view(tracking) or {}) | {"pushed_at": tracking.pushed_at_ms}


def view(tx: Transaction, policy: ActivePolicy) -> ReposAnswer:
    locks = {lock.repo: lock for lock in tx.repo_locks()}
    states = {state.repo: state for state in tx.repo_states()}
    repos = []
    for number, phase in enumerate(policy.graph.phases(), start=1):
        for name in phase:
            lock, state = locks.get(name), states.get(name)
            repos.append(
                {
                    "repo": name,
                    "phase": number,
                    "depends_on": policy.graph.dependencies(name),
                    "locked_by": lock.task_id if lock else None,
                    "locked_since": lock.since_ms if lock else None,
                    "swarm_id": lock.swarm_id if lock else None,
                    "tracking": _followed(tx, lock) if lock else None,
                    "ci": state.state if state else None,
                    "sha": state.sha if state else None,
                    "run_id": state.run_id if state else None,
                }
            )
    halts = [one._asdict() for one in tx.halts_in_force()]
    return ReposAnswer(repos=repos, halts=halts)
