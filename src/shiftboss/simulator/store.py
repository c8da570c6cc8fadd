"""The store of a simulated server: the real transactions and batches, on a simulated disk.

It keeps the promises of `shiftboss.store.port.Store`, and nothing more: an answer comes after its
commit, the events of another server come late, come twice or have to be looked for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from shiftboss.errors import OutcomeUnknown, StoreUnavailable
from shiftboss.protocol.events import Event
from shiftboss.simulator.database import Fate, ServerCrash, SimulatedDatabase
from shiftboss.store.batches import BatchResult, Outcome, run_batch
from shiftboss.store.current_actor import in_name_of_caller
from shiftboss.store.monitoring.measures import StoreMeasures
from shiftboss.store.port import ClockReading, CommitListener, UseCase, nothing_to_reload
from shiftboss.store.row_cache import RowCache
from shiftboss.store.transaction import SqlTransaction
from shiftboss.store.transaction_part import NO_PARKED_POLLS, ParkedPolls

if TYPE_CHECKING:
    from shiftboss.simulator.leadership import SimulatedLeadership

T = TypeVar("T")
NOT_AWAITED = "the server is down"


class _PendingWrite(NamedTuple):
    use_case: UseCase[Any]
    partition: str
    future: asyncio.Future[Any]


class SimulatedStore:
    """See `shiftboss.store.port.Store`. `draw_fate` decides on each commit, `draw_delay` how long
    the disk and the connection take. `on_crash` is called when the server dies in a commit."""

    name = "simulated"
    schema_version = 0

    def __init__(
        self,
        database: SimulatedDatabase,
        leadership: SimulatedLeadership,
        *,
        shared: bool,
        draw_fate: Callable[[], Fate],
        draw_delay: Callable[[], float],
        on_crash: Callable[[], None],
        fails_to_read: Callable[[], bool],
    ) -> None:
        self.shared = shared
        self.measures = StoreMeasures()
        self._database = database
        self._leadership = leadership
        self._draw_fate = draw_fate
        self._draw_delay = draw_delay
        self._on_crash = on_crash
        self._fails_to_read = fails_to_read
        self._jobs: list[_PendingWrite] = []
        self._is_busy = False
        self.is_dead = False

    async def open(
        self,
        on_commit: CommitListener,
        on_gap: Callable[[], None],
        polls: ParkedPolls = NO_PARKED_POLLS,
        on_settings: Callable[[], None] = nothing_to_reload,  # noqa: ARG002 - nobody changes them
    ) -> None:
        self._pass_on, self._on_gap = on_commit, on_gap
        self._session = self._database.session(polls, is_shared=self.shared)
        self._loop = asyncio.get_running_loop()

    @property
    def row_cache(self) -> RowCache | None:
        """What the only server of a database remembers of its rows."""
        return self._session.row_cache

    def write(self, use_case: UseCase[T], partition: str) -> asyncio.Future[T]:
        if self.is_dead:
            raise StoreUnavailable(NOT_AWAITED)
        future: asyncio.Future[T] = self._loop.create_future()
        self._jobs.append(_PendingWrite(in_name_of_caller(use_case), partition, future))
        self._start_batch()
        return future

    def _start_batch(self) -> None:
        """One commit at a time: what is submitted meanwhile shares the next one."""
        if self._jobs and not self._is_busy:
            self._is_busy = True
            self._loop.call_later(self._draw_delay(), self._run_batch)

    def _run_batch(self) -> None:
        if self.is_dead:
            return
        batch, self._jobs = sorted(self._jobs, key=lambda job: job.partition), []
        self._session.fate = self._draw_fate()
        try:
            result = run_batch(self._session, [job.use_case for job in batch])
        except ServerCrash:
            self._on_crash()
            # If the commit was made, the other servers learn of it, as they learn of any other.
            self._database.on_commit(self)
            return
        self._database.on_commit(self)
        self._loop.call_later(self._draw_delay(), self._answer, batch, result)

    def _answer(self, batch: list[_PendingWrite], result: BatchResult) -> None:
        if self.is_dead:
            return
        if self._session.fate == "unsure":
            result = BatchResult([Outcome(error=_in_doubt()) for _ in batch], [])
            self._loop.call_later(self._draw_delay(), self.miss_events)
        if result.events:
            self._pass_on(result.events)
        for job, outcome in zip(batch, result.outcomes, strict=True):
            if job.future.done():
                continue
            if outcome.error is None:
                job.future.set_result(outcome.value)
            else:
                job.future.set_exception(outcome.error)
        self._is_busy = False
        self._start_batch()

    def receive(self, events: list[Event]) -> None:
        """Events that another server has committed."""
        if not self.is_dead:
            self._pass_on(events)

    def miss_events(self) -> None:
        """The connection that brings the events of others was lost, and is there again."""
        if not self.is_dead:
            self._on_gap()

    async def read(self, use_case: UseCase[T]) -> T:
        await asyncio.sleep(self._draw_delay() / 4)
        if self.is_dead or self._fails_to_read():
            raise StoreUnavailable("the database cannot be read")
        with self._session.snapshot():
            return use_case(SqlTransaction(self._session))

    async def lead(
        self, duties: Callable[[], Awaitable[None]], on_call: Callable[[], None]
    ) -> None:
        await self._leadership.run(self, duties, on_call)

    async def call_leader(self) -> None:
        self._leadership.call(self._draw_delay())

    def leader_term(self) -> int | None:
        return self._leadership.term(self) if self.shared else None

    async def read_clock(self, own_clock_ns: Callable[[], int]) -> ClockReading | None:  # noqa: ARG002
        return None

    def failing(self) -> StoreUnavailable | None:
        return None

    def die(self) -> None:
        self.is_dead = True
        for job in self._jobs:
            job.future.cancel()

    async def close(self) -> None:
        self.is_dead = True


def _in_doubt() -> OutcomeUnknown:
    return OutcomeUnknown(
        "the connection was lost during the commit, which may or may not have been done"
    )
