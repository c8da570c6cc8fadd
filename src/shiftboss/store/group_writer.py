"""The writer thread: runs all waiting use cases, commits them together, then answers.

One fsync serves every use case that was submitted while the previous one was under way.

After a refused batch the thread probes the database by itself, with growing pauses, until it
accepts writes again: `failing` does not depend on another caller. While all is well, nothing is
probed.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, TypeVar

from shiftboss.errors import OutcomeUnknown, StoreDamaged, StoreUnavailable
from shiftboss.store.batches import BatchResult, Outcome, RunLater
from shiftboss.store.monitoring.measures import StoreMeasures
from shiftboss.store.port import CommitListener, UseCase

log = logging.getLogger(__name__)
T = TypeVar("T")

# More waiting use cases than this mean that the disk has stopped: refuse more of them.
WAITING_MAX = 50_000
# Limits how long one commit keeps its first caller waiting.
BATCH_MAX = 512
PROBE_SECONDS = 0.25
PROBE_SECONDS_MAX = 5.0
# What a store says about the database itself. Other errors of this kind come from use cases.
_REFUSALS = frozenset({StoreUnavailable, OutcomeUnknown, StoreDamaged})


class EarlyFuture(asyncio.Future[T]):
    """The future of a write. If the use case was alone in its commit, `on_commit` gets its answer
    on the writer thread, before the event loop has the events and the result of the future."""

    on_commit: Callable[[Any], None] | None = None


class _WriteJob(NamedTuple):
    use_case: UseCase[Any]
    partition: str
    future: EarlyFuture[Any]


RunBatch = Callable[[Sequence[UseCase[Any]]], BatchResult]
# Commits something that changes nothing; why that failed, or None.
Probe = Callable[[], StoreUnavailable | None]


class GroupWriter:
    """Runs batches on a thread of its own. Only that thread calls `run_batch` and `probe`.

    `failing` says what is wrong while the database refuses writes.
    """

    def __init__(
        self,
        name: str,
        run_batch: RunBatch,
        on_commit: CommitListener,
        probe: Probe,
        measures: StoreMeasures | None = None,
    ) -> None:
        self._measures = measures or StoreMeasures()
        self._run_batch = run_batch
        self._on_commit = on_commit
        self._probe = probe
        self._probe_seconds = PROBE_SECONDS
        self._loop = asyncio.get_running_loop()
        self._queue: SimpleQueue[tuple[float, list[_WriteJob]] | None] = SimpleQueue()
        self._submitted: list[_WriteJob] = []
        self._submitted_at = 0.0
        # When the first job of the next batch was submitted.
        self._first_at: float | None = None
        self._waiting = 0
        self._closed = False
        self.failing: StoreUnavailable | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(self, use_case: UseCase[T], partition: str) -> EarlyFuture[T]:
        """The future has its result after the commit."""
        if self._closed or self._waiting >= WAITING_MAX:
            raise StoreUnavailable("the store accepts no writes now", hint="try again later")
        future: EarlyFuture[T] = EarlyFuture(loop=self._loop)
        if not self._submitted:
            # Everything that is submitted in one turn of the loop is queued together.
            self._submitted_at = time.monotonic()
            self._loop.call_soon(self._enqueue)
        self._submitted.append(_WriteJob(use_case, partition, future))
        self._waiting += 1
        return future

    async def close(self) -> None:
        """Finish what was submitted, then end the thread."""
        self._closed = True
        self._enqueue()
        self._queue.put(None)
        await asyncio.to_thread(self._thread.join)
        # The thread scheduled the last results before it ended; let the loop set them.
        await asyncio.sleep(0)

    def _enqueue(self) -> None:
        if self._submitted:
            self._queue.put((self._submitted_at, self._submitted))
            self._submitted = []

    def _run(self) -> None:
        try:
            self._run_jobs()
        except MemoryError:
            # Those who wait for an answer would wait forever. After a restart, everything that was
            # answered is there, and they repeat the rest.
            os.write(2, b"out of memory: the writer cannot continue, and the server ends\n")
            os._exit(os.EX_OSERR)

    def _run_jobs(self) -> None:
        ended = False
        jobs: list[_WriteJob] = []
        while not (ended and not jobs):
            if not jobs:
                ended = self._wait_for_jobs(jobs)
            while not ended and len(jobs) < BATCH_MAX and not self._queue.empty():
                ended = self._dequeue(jobs)
            # Every server runs partitions in the same order. Two servers on one database then take
            # their row locks in the same order and cannot deadlock.
            batch, jobs = sorted(jobs[:BATCH_MAX], key=_partition_of), jobs[BATCH_MAX:]
            if batch:
                self._commit(batch)
            if not jobs:
                self._first_at = None

    def _wait_for_jobs(self, jobs: list[_WriteJob]) -> bool:
        """Append to `jobs`; meanwhile, probe a database that refuses writes. True when the writer
        was closed."""
        while self.failing is not None and not isinstance(self.failing, StoreDamaged):
            try:
                return self._dequeue(jobs, self._probe_seconds)
            except Empty:
                self._probe_again()
        return self._dequeue(jobs)

    def _dequeue(self, jobs: list[_WriteJob], seconds: float | None = None) -> bool:
        """Append to `jobs`. True when the writer was closed."""
        submitted = self._queue.get(timeout=seconds)
        if submitted is None:
            return True
        if self._first_at is None:
            self._first_at = submitted[0]
        jobs += submitted[1]
        return False

    def _probe_again(self) -> None:
        refusal = self._probe()
        self._probe_seconds = min(2 * self._probe_seconds, PROBE_SECONDS_MAX)
        self._note(refusal)

    def _commit(self, batch: list[_WriteJob]) -> None:
        began_at = time.monotonic()
        try:
            result = self._run_batch([job.use_case for job in batch])
        except Exception as error:  # noqa: BLE001 (the thread must survive any error of a batch)
            result = BatchResult([Outcome(error=error)] * len(batch), [])
        if len(batch) == 1:
            _answer_early(batch[0].future, result.outcomes[0])
        self._note_result(result)
        seconds = time.monotonic() - began_at
        self._loop.call_soon_threadsafe(self._answer, batch, result)
        self._measure(len(batch), result, seconds, began_at)

    def _measure(
        self, use_cases: int, result: BatchResult, seconds: float, began_at: float
    ) -> None:
        if self.failing is not None:
            self._measures.note_refusal()
            return
        waited = 0.0 if self._first_at is None else began_at - self._first_at
        self._measures.note_batch(use_cases, result.events, result.measurements, seconds, waited)

    def _note_result(self, result: BatchResult) -> None:
        """An event was written, so the database works. A use case that changes nothing needs no
        disk: after it, a database that has refused writes is probed."""
        refusals = [
            outcome.error
            for outcome in result.outcomes
            if isinstance(outcome.error, StoreUnavailable) and type(outcome.error) in _REFUSALS
        ]
        if len(refusals) == len(result.outcomes):
            self._note(refusals[0])
        elif self.failing is None or result.events:
            self._note(None)
        elif not isinstance(self.failing, StoreDamaged):
            self._probe_again()

    def _note(self, refusal: StoreUnavailable | None) -> None:
        """Note whether the database refuses writes, and log when that begins and ends."""
        if refusal is not None and self.failing is None:
            log.error("the database refuses writes: %s", refusal.detail)
        elif refusal is None and self.failing is not None:
            log.warning("the database accepts writes again")
        if refusal is None:
            self._probe_seconds = PROBE_SECONDS
        self.failing = refusal

    def _answer(self, batch: list[_WriteJob], result: BatchResult) -> None:
        self._waiting -= len(batch)
        try:
            if result.events:
                self._on_commit(result.events)
        finally:
            self._set_results(batch, result)

    @staticmethod
    def _set_results(batch: list[_WriteJob], result: BatchResult) -> None:
        for job, outcome in zip(batch, result.outcomes, strict=True):
            if isinstance(outcome.error, RunLater):
                outcome.error.enqueue(job.future)
            else:
                set_outcome(job.future, outcome)


def set_outcome(future: asyncio.Future[Any], outcome: Outcome) -> None:
    if future.done():
        return  # the caller cancelled it; the write is committed nevertheless
    if outcome.error is None:
        future.set_result(outcome.value)
    else:
        future.set_exception(outcome.error)


def _answer_early(future: EarlyFuture[Any], outcome: Outcome) -> None:
    if future.on_commit is None or outcome.error is not None:
        return
    try:
        future.on_commit(outcome.value)
    except Exception:  # the event loop gives the same answer
        log.exception("an answer could not be sent at the commit")


def _partition_of(job: _WriteJob) -> str:
    return job.partition
