"""The PostgreSQL store: a few writer and reader threads; several servers on one database."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from typing import Any, TypeVar, cast
from zlib import crc32

import psycopg

from shiftboss.errors import SchemaMismatch, StoreUnavailable
from shiftboss.store.batches import BatchResult, Outcome, run_batch
from shiftboss.store.current_actor import in_name_of_caller
from shiftboss.store.deadlines import DEFAULT_DEADLINES, DatabaseDeadlines
from shiftboss.store.group_writer import GroupWriter
from shiftboss.store.monitoring.measures import StoreMeasures
from shiftboss.store.port import ClockReading, CommitListener, UseCase, nothing_to_reload
from shiftboss.store.postgres.connections import (
    CONNECTION_WAIT_SECONDS,
    connection_parameters,
    open_pool,
    prepare_schema,
    server_location,
)
from shiftboss.store.postgres.leadership import Leadership
from shiftboss.store.postgres.listener import Listener
from shiftboss.store.postgres.locked_swarms import THREADS as WAITING_THREADS
from shiftboss.store.postgres.locked_swarms import LockedSwarms, SwarmUseCase
from shiftboss.store.postgres.notifications import Channels
from shiftboss.store.postgres.schema import Migrations, outdated, supported_since
from shiftboss.store.postgres.session import PostgresSession, mismatch_of
from shiftboss.store.postgres.session_pool import SessionPool
from shiftboss.store.queries import load_migrations
from shiftboss.store.transaction import SqlTransaction
from shiftboss.store.transaction_part import NO_PARKED_POLLS, ParkedPolls
from shiftboss.system.elapsed import elapsed_seconds

T = TypeVar("T")

WRITERS = 4
READERS = 4
CONNECTIONS_MAX = WRITERS + READERS + WAITING_THREADS


class PostgresStore:
    """See `shiftboss.store.port.Store`.

    A partition always uses the same writer, so that its writes stay in order and share commits.
    """

    name = "postgres"
    shared = True

    def __init__(
        self,
        url: str,
        deadlines: DatabaseDeadlines = DEFAULT_DEADLINES,
        elapsed: Callable[[], float] = elapsed_seconds,
        migrations: Migrations | None = None,
    ) -> None:
        """`elapsed` measures this server's own lease as the leader. `migrations` are those of this
        program; tests of other versions have others."""
        self._url = url
        self._migrations = migrations or load_migrations("postgres")
        self.schema_version = self._migrations[-1][0]
        self._outdated: SchemaMismatch | None = None
        self._elapsed = elapsed
        self._deadlines = deadlines
        self._node = secrets.token_hex(8)
        self._exit = AsyncExitStack()
        self.measures = StoreMeasures()

    async def open(
        self,
        on_commit: CommitListener,
        on_gap: Callable[[], None],
        polls: ParkedPolls = NO_PARKED_POLLS,
        on_settings: Callable[[], None] = nothing_to_reload,
    ) -> None:
        self._polls = polls
        parameters = connection_parameters(self._url)
        try:
            async with AsyncExitStack() as opened:
                await self._open(parameters, on_commit, on_gap, on_settings, opened)
                self._exit = opened.pop_all()
        except psycopg.Error as error:
            raise StoreUnavailable(
                f"cannot use PostgreSQL at {server_location(parameters)}: {error}",
                hint="is it running, and is --db right?",
            ) from error

    async def _open(
        self,
        parameters: dict[str, Any],
        on_commit: CommitListener,
        on_gap: Callable[[], None],
        on_settings: Callable[[], None],
        opened: AsyncExitStack,
    ) -> None:
        """Open everything; `opened` closes it in reverse order."""
        self._loop = asyncio.get_running_loop()
        schema = await asyncio.to_thread(prepare_schema, parameters, self._migrations)
        self._channels = Channels.of_schema(schema)
        self._leadership = Leadership(
            parameters, self._node, self._channels.duties, self._deadlines.lead, self._elapsed
        )
        pool = await asyncio.to_thread(
            open_pool, parameters, WRITERS, CONNECTIONS_MAX, self._deadlines, self._check_schema
        )
        opened.push_async_callback(asyncio.to_thread, pool.close)
        self._sessions = SessionPool(pool, self._node, self._channels.events, self._polls)
        self._readers = ThreadPoolExecutor(READERS, "shiftboss-reader")
        opened.push_async_callback(asyncio.to_thread, self._readers.shutdown)
        self._listener = Listener(
            parameters,
            self._deadlines.answer,
            self._node,
            self._channels.events,
            self._in_snapshot,
            on_commit,
            on_gap,
            on_settings,
        )
        self._sessions.epoch_floor = await self._in_snapshot(_read_epoch_floor)
        await self._listener.start()
        opened.push_async_callback(self._listener.stop)
        self._locked_swarms = locked_swarms = LockedSwarms(
            self._run_batch, self._run_batch, on_commit, self._deadlines.lock, self.measures
        )
        opened.push_async_callback(locked_swarms.close)
        self._writers = [
            GroupWriter(
                f"shiftboss-writer-{number}", self._run_some, on_commit, self._probe, self.measures
            )
            for number in range(WRITERS)
        ]
        for writer in self._writers:
            opened.push_async_callback(writer.close)

    def write(self, use_case: UseCase[T], partition: str) -> asyncio.Future[T]:
        writer = self._writers[crc32(partition.encode()) % WRITERS]
        return writer.submit(SwarmUseCase(in_name_of_caller(use_case), partition), partition)

    async def read(self, use_case: UseCase[T]) -> T:
        return await self._in_snapshot(lambda session: use_case(SqlTransaction(session)))

    async def lead(
        self, duties: Callable[[], Awaitable[None]], on_call: Callable[[], None]
    ) -> None:
        await self._leadership.run(duties, on_call)

    def leader_term(self) -> int | None:
        return self._leadership.term

    async def call_leader(self) -> None:
        with contextlib.suppress(psycopg.Error):
            await self._loop.run_in_executor(self._readers, self._call_leader)

    def _call_leader(self) -> None:
        with self._sessions.take() as session:
            session.execute("announce", {"channel": self._channels.duties, "payload": ""})

    async def read_clock(self, own_clock_ns: Callable[[], int]) -> ClockReading | None:
        def read(session: PostgresSession) -> ClockReading:
            # On the thread that asks: waiting for the event loop would count as the way there.
            before_ns = own_clock_ns()
            row = session.fetch_one("database_clock", {})
            assert row is not None
            return ClockReading(before_ns, row[0] * 1000, own_clock_ns())

        return await self._in_snapshot(read)

    def _check_schema(self, connection: psycopg.Connection) -> None:
        """A newer version may have changed the database while this server had no connection."""
        self._outdated = outdated(supported_since(connection), self.schema_version)
        if self._outdated is not None:
            raise psycopg.OperationalError(self._outdated.detail)

    def failing(self) -> StoreUnavailable | None:
        return self._outdated or next(
            (writer.failing for writer in self._writers if writer.failing), None
        )

    async def close(self) -> None:
        await self._exit.aclose()

    async def _in_snapshot(self, work: Callable[[PostgresSession], T]) -> T:
        asked_at = time.monotonic()
        return await self._loop.run_in_executor(self._readers, self._read, work, asked_at)

    def _read(self, work: Callable[[PostgresSession], T], asked_at: float) -> T:
        """The time in the queue of the readers counts: the last one waits no longer than others."""
        waited = time.monotonic() - asked_at
        try:
            with self._sessions.take(waited_seconds=waited) as session, session.snapshot():
                return work(session)
        except psycopg.Error as error:
            unreadable = StoreUnavailable(f"the database cannot be read: {error}")
            raise mismatch_of(error) or unreadable from error

    def _run_some(self, use_cases: Sequence[UseCase[Any]]) -> BatchResult:
        """For a writer, whose use cases all come from `write`."""
        return self._locked_swarms.run_batch(cast("Sequence[SwarmUseCase[Any]]", use_cases))

    def _run_batch(
        self, use_cases: Sequence[UseCase[Any]], lock_seconds: float | None = None
    ) -> BatchResult:
        give_up_at = time.monotonic() + CONNECTION_WAIT_SECONDS
        try:
            while True:
                with self._sessions.take(lock_seconds) as session:
                    result = run_batch(session, use_cases)
                # A restart cuts one connection after the other; a new one works.
                if not session.lost_before_commit or time.monotonic() > give_up_at:
                    break
        except psycopg.Error as error:
            return BatchResult([Outcome(error=_unreachable(error)) for _ in use_cases], [])
        if session.commit_in_doubt:
            # If it was done, its events have not been passed on here.
            self._loop.call_soon_threadsafe(self._listener.catch_up)
        return result

    def _probe(self) -> StoreUnavailable | None:
        try:
            with self._sessions.take() as session:
                session.probe()
        except psycopg.Error as error:
            return _unreachable(error)
        return None


def _read_epoch_floor(session: PostgresSession) -> int:
    """It changes only while no server is running."""
    row = session.fetch_one("epoch_floor", {})
    return row[0] if row else 0


def _unreachable(error: psycopg.Error) -> StoreUnavailable:
    unavailable = StoreUnavailable(
        f"the database cannot be reached: {error}",
        hint="nothing was changed; send the same report again",
    )
    unavailable.__cause__ = error
    return unavailable
