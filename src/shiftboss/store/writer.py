"""The thread that writes: takes all waiting use cases, commits them together, then answers.

One fsync serves every use case that came while the last one was under way.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Any, NamedTuple, TypeVar

from shiftboss.errors import StoreUnavailable
from shiftboss.store.batches import BatchResult, Outcome
from shiftboss.store.early_future import EarlyFuture
from shiftboss.store.port import CommitListener, UseCase

log = logging.getLogger(__name__)
T = TypeVar("T")

# More than this many waiting means that the disk has stopped: refuse instead of piling up.
WAITING_MAX = 50_000
# Bounds the time that one commit keeps its first caller waiting.
BATCH_MAX = 512


class _Job(NamedTuple):
    use_case: UseCase[Any]
    partition: str
    answer: EarlyFuture[Any]


RunBatch = Callable[[Sequence[UseCase[Any]]], BatchResult]


class GroupWriter:
    """Runs batches on a thread of its own. `run_batch` is called on that thread alone.

    `failing` says what is wrong while the database takes no writes.
    """

    def __init__(self, name: str, run_batch: RunBatch, on_commit: CommitListener) -> None:
        self._run_batch = run_batch
        self._on_commit = on_commit
        self._loop = asyncio.get_running_loop()
        self._queue: SimpleQueue[list[_Job] | None] = SimpleQueue()
        self._gathered: list[_Job] = []
        self._waiting = 0
        self._closed = False
        self.failing: str | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(self, use_case: UseCase[T], partition: str) -> EarlyFuture[T]:
        """The answer comes after the commit."""
        if self._closed or self._waiting >= WAITING_MAX:
            raise StoreUnavailable("the store takes no more writes now", hint="try again later")
        answer: EarlyFuture[T] = EarlyFuture(loop=self._loop)
        if not self._gathered:
            # All that arrives in one turn of the loop goes over in one hand.
            self._loop.call_soon(self._hand_over)
        self._gathered.append(_Job(use_case, partition, answer))
        self._waiting += 1
        return answer

    async def close(self) -> None:
        """Finish what was submitted, then end the thread."""
        self._closed = True
        self._hand_over()
        self._queue.put(None)
        await asyncio.to_thread(self._thread.join)
        # The last answers were handed to the loop before the thread ended; let them be given.
        await asyncio.sleep(0)

    def _hand_over(self) -> None:
        if self._gathered:
            self._queue.put(self._gathered)
            self._gathered = []

    def _run(self) -> None:
        ended = False
        left: list[_Job] = []
        while not (ended and not left):
            if not left:
                ended = self._take(left, wait=True)
            while not ended and len(left) < BATCH_MAX and not self._queue.empty():
                ended = self._take(left, wait=False)
            # Partitions in one order everywhere: two servers on one database then take their row
            # locks in the same order and cannot wait for each other.
            batch, left = sorted(left[:BATCH_MAX], key=_partition_of), left[BATCH_MAX:]
            if batch:
                self._commit(batch)

    def _take(self, into: list[_Job], *, wait: bool) -> bool:
        jobs = self._queue.get(block=wait)
        if jobs is None:
            return True
        into += jobs
        return False

    def _commit(self, batch: list[_Job]) -> None:
        try:
            result = self._run_batch([job.use_case for job in batch])
        except Exception as error:  # noqa: BLE001 (the thread outlives whatever a batch brings)
            result = BatchResult([Outcome(error=error)] * len(batch), [])
        if len(batch) == 1:
            _tell_at_once(batch[0].answer, result.outcomes[0])
        self._note(result)
        self._loop.call_soon_threadsafe(self._answer, batch, result)

    def _note(self, result: BatchResult) -> None:
        """Remember whether the database takes writes; say so once when that changes."""
        refused = [
            outcome.error
            for outcome in result.outcomes
            if isinstance(outcome.error, StoreUnavailable)
        ]
        if len(refused) < len(result.outcomes):
            self.failing = None
        elif self.failing is None:
            self.failing = refused[0].detail
            log.error("writes are refused: %s", self.failing)

    def _answer(self, batch: list[_Job], result: BatchResult) -> None:
        self._waiting -= len(batch)
        if result.events:
            self._on_commit(result.events)
        for job, outcome in zip(batch, result.outcomes, strict=True):
            if job.answer.done():
                continue  # the caller has gone; what it asked for is committed all the same
            if outcome.error is None:
                job.answer.set_result(outcome.value)
            else:
                job.answer.set_exception(outcome.error)


def _tell_at_once(answer: EarlyFuture[Any], outcome: Outcome) -> None:
    if answer.at_once is None or outcome.error is not None:
        return
    try:
        answer.at_once(outcome.value)
    except Exception:  # (the thread goes on, and so does the loop, with the same answer)
        log.exception("an answer could not be given at the commit")


def _partition_of(job: _Job) -> str:
    return job.partition
