"""All invariants in one table, and the check of a whole store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from shiftboss.coordinator.invariants import attempts, claims, events, locks, queues
from shiftboss.coordinator.invariants.facts import (
    BrokenInvariant,
    StoreFacts,
    SwarmFacts,
    read_store,
    read_swarm,
)
from shiftboss.rules.contract.repo_graph import RepoGraph
from shiftboss.store.port import Transaction

SWARM_INVARIANTS: Final[tuple[Callable[[SwarmFacts], Iterator[BrokenInvariant]], ...]] = (
    attempts.active_tasks_have_an_attempt,
    attempts.attempts_have_a_task,
    attempts.workers_hold_their_attempt,
    attempts.attempts_have_their_worker,
    attempts.leases_run,
    attempts.packets_count_their_retries,
    queues.dependencies_are_counted,
    queues.dependencies_exist,
    queues.ready_tasks_are_counted,
    queues.finished_tasks_are_counted,
    queues.queue_numbers_are_unique,
    claims.open_claims_are_held,
    claims.claims_are_numbered,
    claims.done_has_a_receipt,
    claims.accepted_claims_have_receipts,
    events.events_have_no_gap,
)
SHARED_INVARIANTS: Final = (
    locks.files_belong_to_tasks_in_flight,
    locks.repos_are_locked_for_work,
)
STORE_INVARIANTS: Final = (locks.reserved_files_are_apart, events.events_have_a_swarm)


class StoreReport(NamedTuple):
    """The extent of a check, and the broken invariants."""

    swarms: int
    tasks: int
    events: int
    receipts: int
    broken: list[BrokenInvariant]
    receipts_verified: bool = False


def check_swarm(facts: SwarmFacts, store: StoreFacts) -> list[BrokenInvariant]:
    """Everything but the fold and the signatures, which take longer."""
    broken = [violation for invariant in SWARM_INVARIANTS for violation in invariant(facts)]
    broken += [violation for shared in SHARED_INVARIANTS for violation in shared(facts, store)]
    return broken


def check_shared(store: StoreFacts, graph: RepoGraph | None = None) -> list[BrokenInvariant]:
    """Invariants across swarms."""
    broken = [violation for invariant in STORE_INVARIANTS for violation in invariant(store)]
    if graph is not None:
        broken += locks.locked_repos_are_independent(store, graph)
    return broken


def check_store(
    tx: Transaction, public_key: str | None, graph: RepoGraph | None = None
) -> StoreReport:
    """Check a whole store, one swarm after the other. Receipts are verified with the keys in
    `public_key`; None: with those of the store. Without any key, they are not verified.
    `graph` is that of the policy: which repo depends on which."""
    store = read_store(tx)
    if public_key is None:
        public_key = "".join(key.public_key for key in tx.signing_keys())
    broken = check_shared(store, graph)
    tasks = event_count = receipts = 0
    for swarm_id in store.swarm_ids:
        facts = read_swarm(tx, swarm_id)
        if facts is None:
            continue
        broken += check_swarm(facts, store)
        broken += locks.locked_tasks_exist(store, [facts])
        if events.is_complete_log(facts):
            broken += events.state_equals_fold(facts, events.fold_swarm(tx, swarm_id))
        rows = [row for rows in facts.receipts.values() for row in rows]
        if public_key:
            invalid = (claims.unverified_receipt(row, public_key) for row in rows)
            broken += [violation for violation in invalid if violation is not None]
        tasks += len(facts.tasks)
        event_count += facts.events.total
        receipts += len(rows)
    return StoreReport(len(store.swarm_ids), tasks, event_count, receipts, broken, bool(public_key))
