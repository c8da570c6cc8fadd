"""A cache of rows for the writer of a database that nobody else writes to.

Every write goes to the database and to the cache, so a cached row is what a query would return. A
rollback empties the cache. `SqliteStore` decides whether it is used; nothing else knows about it.
"""

from __future__ import annotations

from typing import Final, Generic, TypeVar

from shiftboss.protocol.fields import INTEGER_MAX
from shiftboss.rules.runs.records import Hold
from shiftboss.rules.tasks.packets import Assignment
from shiftboss.rules.tasks.tasks import Task, Worker
from shiftboss.store.bus.port import TakenTask, TakenWorker
from shiftboss.store.transaction import SqlTransaction
from shiftboss.store.transaction_part import ParkedPolls, Session

R = TypeVar("R")

# Enough for the work in progress; a task may have a long description.
ROWS_MAX: Final = 2_000

Key = tuple[str, str]


class Unknown:
    """The cache neither has the row nor knows that there is none."""


UNKNOWN: Final = Unknown()


class CachedRows(Generic[R]):
    """The rows of one table by their keys; None where there is no such row."""

    def __init__(self, rows_max: int) -> None:
        self._rows: dict[Key, R | None] = {}
        self._rows_max = rows_max

    def get(self, swarm_id: str, name: str) -> R | Unknown | None:
        return self._rows.get((swarm_id, name), UNKNOWN)

    def put(self, swarm_id: str, name: str, row: R | None) -> None:
        if len(self._rows) >= self._rows_max:
            self._rows.clear()
        self._rows[(swarm_id, name)] = row

    def forget(self, swarm_id: str, name: str) -> None:
        self._rows.pop((swarm_id, name), None)

    def items(self) -> list[tuple[Key, R | None]]:
        return list(self._rows.items())

    def clear(self) -> None:
        self._rows.clear()


class CachedSwarms:
    """Swarms that are known to have none of something."""

    def __init__(self, swarms_max: int) -> None:
        self._swarms: set[str] = set()
        self._swarms_max = swarms_max

    def __contains__(self, swarm_id: str) -> bool:
        return swarm_id in self._swarms

    def add(self, swarm_id: str) -> None:
        if len(self._swarms) < self._swarms_max:
            self._swarms.add(swarm_id)

    def discard(self, swarm_id: str) -> None:
        self._swarms.discard(swarm_id)

    def clear(self) -> None:
        self._swarms.clear()


class RowCache:
    """Rows by table; tasks on which no other task depends; swarms without ready tasks, without
    holds, or without offers that no poll has received."""

    def __init__(self, rows_max: int = ROWS_MAX) -> None:
        self.tasks: CachedRows[Task] = CachedRows(rows_max)
        self.workers: CachedRows[Worker] = CachedRows(rows_max)
        self.assignments: CachedRows[Assignment] = CachedRows(rows_max)
        self.without_dependents: CachedRows[bool] = CachedRows(rows_max)
        self.without_ready = CachedSwarms(rows_max)
        self.without_holds = CachedSwarms(rows_max)
        self.without_offers = CachedSwarms(rows_max)

    def clear(self) -> None:
        self.tasks.clear()
        self.workers.clear()
        self.assignments.clear()
        self.without_dependents.clear()
        self.without_ready.clear()
        self.without_holds.clear()
        self.without_offers.clear()


class CachedTransaction(SqlTransaction):
    """Reads from the cache where it can, and keeps the cache equal to the database."""

    def __init__(
        self, session: Session, event_ids: dict[str, int], polls: ParkedPolls, cache: RowCache
    ) -> None:
        super().__init__(session, event_ids, polls)
        self._cache = cache

    # -- tasks

    def task(self, swarm_id: str, task_id: str) -> Task | None:
        cached = self._cache.tasks.get(swarm_id, task_id)
        if not isinstance(cached, Unknown):
            return cached
        task = super().task(swarm_id, task_id)
        self._cache.tasks.put(swarm_id, task_id, task)
        return task

    def take_task(self, swarm_id: str, task_id: str) -> TakenTask | None:
        cached = self._cached_task(swarm_id, task_id)
        if cached is not None:
            return cached
        taken = super().take_task(swarm_id, task_id)
        if taken is not None:
            self._cache.tasks.put(swarm_id, task_id, taken.task)
            self._cache.assignments.put(swarm_id, task_id, taken.assignment)
            if taken.worker is not None:
                self._cache.workers.put(swarm_id, taken.worker.name, taken.worker)
        return taken

    def _cached_task(self, swarm_id: str, task_id: str) -> TakenTask | None:
        cache = self._cache
        task = cache.tasks.get(swarm_id, task_id)
        assignment = cache.assignments.get(swarm_id, task_id)
        if task is None or isinstance(task, Unknown) or isinstance(assignment, Unknown):
            return None
        if assignment is None:
            return TakenTask(task, None, None)
        worker = cache.workers.get(swarm_id, assignment.worker)
        return None if isinstance(worker, Unknown) else TakenTask(task, assignment, worker)

    def next_task(self, swarm_id: str) -> Task | None:
        if swarm_id in self._cache.without_ready:
            return None
        task = super().next_task(swarm_id)
        # A task that is ready may be held back; then the next call has to ask again.
        if task is None and not self.ready_at_or_above(swarm_id, -INTEGER_MAX):
            self._cache.without_ready.add(swarm_id)
        return task

    def change_ready(self, swarm_id: str, priority: int, change: int) -> None:
        self._cache.without_ready.discard(swarm_id)
        super().change_ready(swarm_id, priority, change)

    def add_task(self, task: Task, depends_on: list[str]) -> None:
        super().add_task(task, depends_on)
        cache, swarm_id = self._cache, task.swarm_id
        cache.tasks.put(swarm_id, task.task_id, task)
        cache.assignments.put(swarm_id, task.task_id, None)
        cache.without_dependents.put(swarm_id, task.task_id, row=True)
        for dependency in depends_on:
            cache.without_dependents.forget(swarm_id, dependency)

    def save_task(self, task: Task) -> None:
        super().save_task(task)
        self._cache.tasks.put(task.swarm_id, task.task_id, task)

    def dependents(self, swarm_id: str, task_id: str) -> list[Task]:
        if self._cache.without_dependents.get(swarm_id, task_id) is True:
            return []
        return super().dependents(swarm_id, task_id)

    # -- workers

    def worker(self, swarm_id: str, name: str) -> Worker | None:
        cached = self._cache.workers.get(swarm_id, name)
        if not isinstance(cached, Unknown):
            return cached
        worker = super().worker(swarm_id, name)
        self._cache.workers.put(swarm_id, name, worker)
        return worker

    def take_worker(self, swarm_id: str, name: str) -> TakenWorker | None:
        cached = self._cached_worker(swarm_id, name)
        if cached is not None:
            return cached
        taken = super().take_worker(swarm_id, name)
        if taken is not None:
            if not taken.may_have_offers:
                self._cache.without_offers.add(swarm_id)
            self._cache.workers.put(swarm_id, name, taken.worker)
            if taken.assignment is not None:
                task_id = taken.assignment.task_id
                self._cache.assignments.put(swarm_id, task_id, taken.assignment)
        return taken

    def _cached_worker(self, swarm_id: str, name: str) -> TakenWorker | None:
        worker = self._cache.workers.get(swarm_id, name)
        if worker is None or isinstance(worker, Unknown):
            return None
        may_have_offers = swarm_id not in self._cache.without_offers
        if worker.task_id is None:
            return TakenWorker(worker, None, may_have_offers)
        assignment = self._cache.assignments.get(swarm_id, worker.task_id)
        if isinstance(assignment, Unknown):
            return None
        return TakenWorker(worker, assignment, may_have_offers)

    def put_worker(self, worker: Worker) -> None:
        super().put_worker(worker)
        self._cache.workers.put(worker.swarm_id, worker.name, worker)

    # -- assignments

    def assignment(self, swarm_id: str, task_id: str) -> Assignment | None:
        cached = self._cache.assignments.get(swarm_id, task_id)
        if not isinstance(cached, Unknown):
            return cached
        assignment = super().assignment(swarm_id, task_id)
        self._cache.assignments.put(swarm_id, task_id, assignment)
        return assignment

    def next_offer(self, swarm_id: str, skip: int = 0) -> Assignment | None:
        if swarm_id in self._cache.without_offers:
            return None
        offer = super().next_offer(swarm_id, skip)
        # An offer may be held back; then the next call has to ask again.
        if offer is None and not self._has_offers(swarm_id):
            self._cache.without_offers.add(swarm_id)
        return offer

    def put_assignment(self, assignment: Assignment) -> None:
        super().put_assignment(assignment)
        if not assignment.received:
            self._cache.without_offers.discard(assignment.swarm_id)
        self._cache.assignments.put(assignment.swarm_id, assignment.task_id, assignment)

    def save_assignment(self, assignment: Assignment) -> bool:
        saved = super().save_assignment(assignment)
        if saved:
            self._cache.assignments.put(assignment.swarm_id, assignment.task_id, assignment)
        return saved

    def save_lease(self, assignment: Assignment) -> bool:
        saved = super().save_lease(assignment)
        if saved:
            self._cache.assignments.put(assignment.swarm_id, assignment.task_id, assignment)
        return saved

    def save_progress(self, assignment: Assignment) -> None:
        self._cache.assignments.forget(assignment.swarm_id, assignment.task_id)
        super().save_progress(assignment)

    def end_assignment(self, swarm_id: str, task_id: str, epoch: int) -> bool:
        ended = super().end_assignment(swarm_id, task_id, epoch)
        if ended:
            self._cache.assignments.put(swarm_id, task_id, None)
        return ended

    def renew_expired_leases(self, now_ms: int, grace_seconds: int) -> int:
        self._cache.assignments.clear()
        return super().renew_expired_leases(now_ms, grace_seconds)

    # -- holds, swarms

    def holds_of_task(self, swarm_id: str, task_id: str) -> list[Hold]:
        if swarm_id in self._cache.without_holds:
            return []
        holds = super().holds_of_task(swarm_id, task_id)
        if not holds and not self.holds_of_swarm(swarm_id, 1):
            self._cache.without_holds.add(swarm_id)
        return holds

    def put_hold(self, hold: Hold) -> None:
        self._cache.without_holds.discard(hold.swarm_id)
        super().put_hold(hold)

    def delete_task(self, swarm_id: str, task_id: str) -> None:
        super().delete_task(swarm_id, task_id)
        self._cache.tasks.forget(swarm_id, task_id)
        self._cache.assignments.forget(swarm_id, task_id)

    def delete_worker(self, swarm_id: str, name: str) -> None:
        super().delete_worker(swarm_id, name)
        self._cache.workers.forget(swarm_id, name)

    def delete_swarm(self, swarm_id: str) -> None:
        super().delete_swarm(swarm_id)
        self._cache.clear()
