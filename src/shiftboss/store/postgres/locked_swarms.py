"""Use cases that wait for a lock of somebody else, so that no other swarm waits with them.

A writer runs the use cases of many swarms in one transaction. If another connection holds the row
of one of these swarms (a person with psql, a server that hangs), the use cases of that swarm are
taken out of the batch and run here in batches of their own, on another thread, with more patience.
Those that follow in the same swarm queue up behind them: their order does not change.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, Generic, NamedTuple, TypeVar

import psycopg

from shiftboss.errors import StoreUnavailable
from shiftboss.protocol.events import Event
from shiftboss.store.batches import BatchResult, Outcome, RunLater
from shiftboss.store.group_writer import BATCH_MAX, set_outcome
from shiftboss.store.monitoring.measures import StoreMeasures
from shiftboss.store.port import CommitListener, Transaction, UseCase
from shiftboss.store.postgres.session import LockedElsewhereError

T = TypeVar("T")

# How many locked swarms are waited for at a time.
THREADS: Final = 4
# A use case whose time is over still tries.
_SECONDS_MIN: Final = 0.01


class SwarmUseCase(Generic[T]):
    """A use case that knows its partition."""

    __slots__ = ("_use_case", "partition")

    def __init__(self, use_case: UseCase[T], partition: str) -> None:
        self._use_case = use_case
        self.partition = partition

    def __call__(self, tx: Transaction) -> T:
        return self._use_case(tx)


RunBatch = Callable[[Sequence[SwarmUseCase[Any]]], BatchResult]
RunPatiently = Callable[[Sequence[SwarmUseCase[Any]], float], BatchResult]


class _Job(NamedTuple):
    use_case: SwarmUseCase[Any]
    ends_at: float
    future: asyncio.Future[Any]


class LockedSwarms:
    """`run_patiently` also gets how many seconds it may wait for locks."""

    def __init__(
        self,
        run_batch: RunBatch,
        run_patiently: RunPatiently,
        on_commit: CommitListener,
        lock_seconds: float,
        measures: StoreMeasures | None = None,
    ) -> None:
        self._measures = measures or StoreMeasures()
        self._run_batch = run_batch
        self._run_patiently = run_patiently
        self._on_commit = on_commit
        self._lock_seconds = lock_seconds
        self._loop = asyncio.get_running_loop()
        self._threads = ThreadPoolExecutor(THREADS, "shiftboss-locked-swarms")
        self._lock = threading.Lock()
        # How many use cases of a partition are here. Only the writer of the partition adds to it.
        self._waiting: dict[str, int] = {}
        # Those that no thread has taken yet. At most one thread works on a partition.
        self._jobs: dict[str, list[_Job]] = {}

    def run_batch(self, use_cases: Sequence[SwarmUseCase[Any]]) -> BatchResult:
        """On the thread of a writer: run the batch, without the use cases that have to wait."""
        if not self._waiting:
            return self._sort_out(use_cases, self._run_batch(use_cases))
        waits = [use_case.partition in self._waiting for use_case in use_cases]
        ready = [case for case, late in zip(use_cases, waits, strict=True) if not late]
        result = self._run_batch(ready) if ready else BatchResult([], [])
        sorted_out = iter(self._sort_out(ready, result).outcomes)
        outcomes = [
            self._later(case) if late else next(sorted_out)
            for case, late in zip(use_cases, waits, strict=True)
        ]
        return result._replace(outcomes=outcomes)

    def _sort_out(self, use_cases: Sequence[SwarmUseCase[Any]], result: BatchResult) -> BatchResult:
        if not any(is_locked(outcome) for outcome in result.outcomes):
            return result
        pairs = zip(use_cases, result.outcomes, strict=True)
        outcomes = [self._later(case) if is_locked(outcome) else outcome for case, outcome in pairs]
        return result._replace(outcomes=outcomes)

    def _later(self, use_case: SwarmUseCase[Any]) -> Outcome:
        self._count(use_case.partition, 1)
        ends_at = time.monotonic() + self._lock_seconds
        return Outcome(error=RunLater(lambda future: self._enqueue(use_case, ends_at, future)))

    def _count(self, partition: str, change: int) -> None:
        with self._lock:
            count = self._waiting.get(partition, 0) + change
            if count:
                self._waiting[partition] = count
            else:
                del self._waiting[partition]

    def _enqueue(
        self, use_case: SwarmUseCase[Any], ends_at: float, future: asyncio.Future[Any]
    ) -> None:
        """On the event loop, in the order of the calls."""
        partition = use_case.partition
        with self._lock:
            is_first = partition not in self._jobs
            self._jobs.setdefault(partition, []).append(_Job(use_case, ends_at, future))
        if is_first:
            self._threads.submit(self._run, partition)

    def _run(self, partition: str) -> None:
        while self._run_some(partition):
            try:
                # Behind the other partitions that wait for a thread.
                self._threads.submit(self._run, partition)
            except RuntimeError:
                continue  # the store is closing: finish here
            return

    def _run_some(self, partition: str) -> bool:
        """Run what waits, until the time of the first is over. Whether more is left."""
        with self._lock:
            waiting = self._jobs[partition]
            jobs, self._jobs[partition] = waiting[:BATCH_MAX], waiting[BATCH_MAX:]
        seconds = max(jobs[0].ends_at - time.monotonic(), _SECONDS_MIN)
        began_at = time.monotonic()
        try:
            result = self._run_patiently([job.use_case for job in jobs], seconds)
        except Exception as error:  # noqa: BLE001 (the callers get any error of their use cases)
            result = BatchResult([Outcome(error=error)] * len(jobs), [])
        self._measures.note_batch(
            len(jobs),
            result.events,
            result.measurements,
            time.monotonic() - began_at,
            self._lock_seconds - seconds,
        )
        again: list[_Job] = []
        answered: list[tuple[_Job, Outcome]] = []
        for job, outcome in zip(jobs, result.outcomes, strict=True):
            if is_locked(outcome) and job.ends_at > time.monotonic():
                again.append(job)
            else:
                answered.append((job, outcome))
        with self._lock:
            left = self._jobs[partition] = again + self._jobs[partition]
            if not left:
                del self._jobs[partition]
        self._loop.call_soon_threadsafe(self._answer, answered, result.events)
        return bool(left)

    def _answer(self, answered: list[tuple[_Job, Outcome]], events: list[Event]) -> None:
        try:
            if events:
                self._on_commit(events)
        finally:
            for job, outcome in answered:
                self._count(job.use_case.partition, -1)
                is_too_late = is_locked(outcome)
                set_outcome(
                    job.future, Outcome(error=self._still_locked()) if is_too_late else outcome
                )

    def _still_locked(self) -> StoreUnavailable:
        return StoreUnavailable(
            "another connection to the database has locked what the request changes for more than "
            f"{self._lock_seconds:g} s",
            hint="nothing was changed; send the same report again",
        )

    async def close(self) -> None:
        """Finish what waits, then end the threads."""
        await asyncio.to_thread(self._threads.shutdown)
        # The threads scheduled the last results before they ended; let the loop set them.
        await asyncio.sleep(0)


def is_locked(outcome: Outcome) -> bool:
    """Whether the use case has waited for a lock in vain. It has changed nothing."""
    error = outcome.error
    return isinstance(error, LockedElsewhereError) or (
        error is not None and isinstance(error.__cause__, psycopg.errors.LockNotAvailable)
    )
