"""Invariants of files and repos: no two tasks in flight have the same."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations, groupby

from shiftboss.coordinator.invariants.facts import BrokenInvariant, StoreFacts, SwarmFacts
from shiftboss.rules.contract.repo_graph import RepoGraph
from shiftboss.rules.handoffs.handoffs import Reservation
from shiftboss.rules.paths.overlap import TooMuchWorkError, overlaps

_OVER = ("done", "failed", "cancelled")


def reserved_files_are_apart(store: StoreFacts) -> Iterator[BrokenInvariant]:
    """No two tasks own the same file of a repository."""
    for _, group in groupby(store.reservations, key=lambda reservation: reservation.repo):
        for left, right in combinations(list(group), 2):
            shared = _shared_file(left, right)
            if shared is not None:
                yield BrokenInvariant(
                    "ownership",
                    left.swarm_id,
                    f"files of {left.task_id}",
                    f"{shared} also belongs to {right.task_id} of {right.swarm_id}",
                    f"shiftboss task cancel {right.task_id} --swarm {right.swarm_id}",
                )


def _shared_file(left: Reservation, right: Reservation) -> str | None:
    try:
        for overlap in overlaps(left.patterns, right.patterns, case_insensitive=True):
            return overlap.example
    except TooMuchWorkError:  # the server refuses to compare such patterns, too
        pass
    return None


def files_belong_to_tasks_in_flight(
    facts: SwarmFacts, store: StoreFacts
) -> Iterator[BrokenInvariant]:
    """A task that is handed out has its files, and one that is over has none."""
    reserved = {
        reservation.task_id
        for reservation in store.reservations
        if reservation.swarm_id == facts.swarm.swarm_id
    }
    for task in facts.tasks.values():
        if task.status in _OVER and task.task_id in reserved:
            yield facts.broken(
                "ownership", f"files of {task.task_id}", f"are reserved, but it is {task.status}"
            )
        if (
            task.status == "active"
            and task.contract_version is not None
            and task.task_id not in reserved
        ):
            yield facts.broken(
                "ownership",
                f"files of {task.task_id}",
                "are not reserved while it is active",
                facts.retry_command(task.task_id),
            )


def repos_are_locked_for_work(facts: SwarmFacts, store: StoreFacts) -> Iterator[BrokenInvariant]:
    """A task on a repo of the policy that is queued or handed out has the lock of that repo."""
    locked = {
        lock.task_id: lock.repo
        for lock in store.repo_locks
        if lock.swarm_id == facts.swarm.swarm_id
    }
    for contract in facts.contracts.values():
        task = facts.tasks.get(contract.task_id)
        if task is None or contract.repo_name is None or task.status not in ("queued", "active"):
            continue
        if locked.get(task.task_id) != contract.repo_name:
            yield facts.broken(
                "repo_lock",
                f"task {task.task_id}",
                f"is {task.status} and does not have the lock of {contract.repo_name}",
                f"shiftboss task cancel {task.task_id} --swarm {facts.swarm.swarm_id}",
            )


def locked_repos_are_independent(store: StoreFacts, graph: RepoGraph) -> Iterator[BrokenInvariant]:
    """Of two repos where one depends on the other, one is worked on at a time."""
    repos = {repo for phase in graph.phases() for repo in phase}
    known = [lock for lock in store.repo_locks if lock.repo in repos]
    for lock in known:
        others = [other.repo for other in known if other.repo != lock.repo]
        for blocker in graph.blockers(lock.repo, others, chain=False):
            yield BrokenInvariant(
                "repo_lock",
                lock.swarm_id,
                f"repo {lock.repo}",
                f"is locked for {lock.task_id} although {blocker}",
                f"shiftboss repo release {lock.repo} --reason 'found by fsck'",
            )


def locked_tasks_exist(
    store: StoreFacts, swarms: Iterable[SwarmFacts]
) -> Iterator[BrokenInvariant]:
    """Locks and files of a swarm that exists belong to tasks that exist."""
    by_id = {facts.swarm.swarm_id: facts for facts in swarms}
    for lock in store.repo_locks:
        facts = by_id.get(lock.swarm_id)
        if facts is not None and lock.task_id not in facts.tasks:
            yield facts.broken("repo_lock", f"repo {lock.repo}", f"{lock.task_id} does not exist")
