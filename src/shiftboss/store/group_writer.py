"""The writer thread: runs all waiting use cases, commits them together, then answers.

One fsync serves every use case that was submitted while the previous one was under way.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Any, NamedTuple, TypeVar

from shiftboss.errors import StoreUnavailable
from shiftboss.store.batches import BatchResult, Outcome, RunLater
from shiftboss.store.port import CommitListener, UseCase

log = logging.getLogger(__name__)
T = TypeVar("T")

# More waiting use cases than this mean that the disk has stopped: refuse more of them.
WAITING_MAX = 50_000
# Limits how long one commit keeps its first caller waiting.
BATCH_MAX = 512


class EarlyFuture(asyncio.Future[T]):
    """The future of a write. If the use case was alone in its commit, `on_commit` gets its answer
    on the writer thread, before the event loop has the events and the result of the future."""

    on_commit: Callable[[Any], None] | None = None


class _Job(NamedTuple):
    use_case: UseCase[Any]
    partition: str
    future: EarlyFuture[Any]


RunBatch = Callable[[Sequence[UseCase[Any]]], BatchResult]


class GroupWriter:
    """Runs batches on a thread of its own. Only that thread calls `run_batch`.

    `failing` says what is wrong while the database refuses writes.
    """

    def __init__(self, name: str, run_batch: RunBatch, on_commit: CommitListener) -> None:
        self._run_batch = run_batch
        self._on_commit = on_commit
        self._loop = asyncio.get_running_loop()
        self._queue: SimpleQueue[list[_Job] | None] = SimpleQueue()
        self._submitted: list[_Job] = []
        self._waiting = 0
        self._closed = False
        self.failing: str | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(self, use_case: UseCase[T], partition: str) -> EarlyFuture[T]:
        """The future has its result after the commit."""
        if self._closed or self._waiting >= WAITING_MAX:
            raise StoreUnavailable("the store accepts no writes now", hint="try again later")
        future: EarlyFuture[T] = EarlyFuture(loop=self._loop)
        if not self._submitted:
            # Everything that is submitted in one turn of the loop is queued together.
            self._loop.call_soon(self._enqueue)
        self._submitted.append(_Job(use_case, partition, future))
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
            self._queue.put(self._submitted)
            self._submitted = []

    def _run(self) -> None:
        ended = False
        jobs: list[_Job] = []
        while not (ended and not jobs):
            if not jobs:
                ended = self._dequeue(jobs, wait=True)
            while not ended and len(jobs) < BATCH_MAX and not self._queue.empty():
                ended = self._dequeue(jobs, wait=False)
            # Every server runs partitions in the same order. Two servers on one database then take
            # their row locks in the same order and cannot deadlock.
            batch, jobs = sorted(jobs[:BATCH_MAX], key=_partition_of), jobs[BATCH_MAX:]
            if batch:
                self._commit(batch)

    def _dequeue(self, jobs: list[_Job], *, wait: bool) -> bool:
        """Append to `jobs`. True when the writer was closed."""
        submitted = self._queue.get(block=wait)
        if submitted is None:
            return True
        jobs += submitted
        return False

    def _commit(self, batch: list[_Job]) -> None:
        try:
            result = self._run_batch([job.use_case for job in batch])
        except Exception as error:  # noqa: BLE001 (the thread must survive any error of a batch)
            result = BatchResult([Outcome(error=error)] * len(batch), [])
        if len(batch) == 1:
            _answer_early(batch[0].future, result.outcomes[0])
        self._note_failure(result)
        self._loop.call_soon_threadsafe(self._answer, batch, result)

    def _note_failure(self, result: BatchResult) -> None:
        """Note whether the database refuses writes, and log it once when that begins."""
        refused = [
            outcome.error
            for outcome in result.outcomes
            if isinstance(outcome.error, StoreUnavailable)
        ]
        if len(refused) < len(result.outcomes):
            self.failing = None
        elif self.failing is None:
            self.failing = refused[0].detail
            log.error("the database refuses writes: %s", self.failing)

    def _answer(self, batch: list[_Job], result: BatchResult) -> None:
        self._waiting -= len(batch)
        if result.events:
            self._on_commit(result.events)
        for job, outcome in zip(batch, result.outcomes, strict=True):
            if isinstance(outcome.error, RunLater):
                outcome.error.enqueue(job.future)
            elif job.future.done():
                continue  # the caller cancelled it; the write is committed all the same
            elif outcome.error is None:
                job.future.set_result(outcome.value)
            else:
                job.future.set_exception(outcome.error)


def _answer_early(future: EarlyFuture[Any], outcome: Outcome) -> None:
    if future.on_commit is None or outcome.error is not None:
        return
    try:
        future.on_commit(outcome.value)
    except Exception:  # the event loop gives the same answer
        log.exception("an answer could not be sent at the commit")


def _partition_of(job: _Job) -> str:
    return job.partition
