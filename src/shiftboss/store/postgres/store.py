"""The PostgreSQL store: a few writer and reader threads; several servers on one database."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, contextmanager
from typing import Any, TypeVar
from zlib import crc32

import psycopg

from shiftboss.errors import StoreUnavailable
from shiftboss.store.batches import BatchResult, Outcome, run_batch
from shiftboss.store.group_writer import GroupWriter
from shiftboss.store.port import CommitListener, UseCase
from shiftboss.store.postgres.connections import (
    connection_parameters,
    open_pool,
    prepare_schema,
    server_location,
    take_connection,
)
from shiftboss.store.postgres.leadership import Leadership
from shiftboss.store.postgres.listener import Listener
from shiftboss.store.postgres.notifications import Channels
from shiftboss.store.postgres.session import PostgresSession
from shiftboss.store.transaction import SqlTransaction
from shiftboss.store.transaction_part import NO_PARKED_POLLS, ParkedPolls

T = TypeVar("T")

WRITERS = 4
READERS = 4


class PostgresStore:
    """See `shiftboss.store.port.Store`.

    A partition always uses the same writer, so that its writes stay in order and share commits.
    """

    name = "postgres"
    shared = True

    def __init__(self, url: str) -> None:
        self._url = url
        self._node = secrets.token_hex(8)
        self._epoch_floor = 0
        self._exit = AsyncExitStack()

    async def open(
        self,
        on_commit: CommitListener,
        on_gap: Callable[[], None],
        polls: ParkedPolls = NO_PARKED_POLLS,
    ) -> None:
        self._polls = polls
        parameters = connection_parameters(self._url)
        try:
            async with AsyncExitStack() as opened:
                await self._open(parameters, on_commit, on_gap, opened)
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
        opened: AsyncExitStack,
    ) -> None:
        """Open everything; `opened` closes it in reverse order."""
        self._loop = asyncio.get_running_loop()
        schema = await asyncio.to_thread(prepare_schema, parameters)
        self._channels = Channels.of_schema(schema)
        self._leadership = Leadership(parameters, self._channels.duties)
        self._pool = await asyncio.to_thread(open_pool, parameters, WRITERS, WRITERS + READERS)
        opened.push_async_callback(asyncio.to_thread, self._pool.close)
        self._readers = ThreadPoolExecutor(READERS, "shiftboss-reader")
        opened.push_async_callback(asyncio.to_thread, self._readers.shutdown)
        self._listener = Listener(
            parameters, self._node, self._channels.events, self._in_snapshot, on_commit, on_gap
        )
        self._epoch_floor = await self._in_snapshot(_read_epoch_floor)
        await self._listener.start()
        opened.push_async_callback(self._listener.stop)
        self._writers = [
            GroupWriter(f"shiftboss-writer-{number}", self._run_batch, on_commit, self._probe)
            for number in range(WRITERS)
        ]
        for writer in self._writers:
            opened.push_async_callback(writer.close)

    def write(self, use_case: UseCase[T], partition: str) -> asyncio.Future[T]:
        writer = self._writers[crc32(partition.encode()) % WRITERS]
        return writer.submit(use_case, partition)

    async def read(self, use_case: UseCase[T]) -> T:
        return await self._in_snapshot(lambda session: use_case(SqlTransaction(session)))

    async def lead(
        self, duties: Callable[[], Awaitable[None]], on_call: Callable[[], None]
    ) -> None:
        await self._leadership.run(duties, on_call)

    async def call_leader(self) -> None:
        with contextlib.suppress(psycopg.Error):
            await self._loop.run_in_executor(self._readers, self._call_leader)

    def _call_leader(self) -> None:
        with self._session() as session:
            session.execute("announce", {"channel": self._channels.duties, "payload": ""})

    def failing(self) -> StoreUnavailable | None:
        return next((writer.failing for writer in self._writers if writer.failing), None)

    async def close(self) -> None:
        await self._exit.aclose()

    async def _in_snapshot(self, work: Callable[[PostgresSession], T]) -> T:
        return await self._loop.run_in_executor(self._readers, self._read, work)

    def _read(self, work: Callable[[PostgresSession], T]) -> T:
        try:
            with self._session() as session, session.snapshot():
                return work(session)
        except psycopg.Error as error:
            raise StoreUnavailable(f"the database cannot be read: {error}") from error

    def _run_batch(self, use_cases: Sequence[UseCase[Any]]) -> BatchResult:
        try:
            with self._session() as session:
                result = run_batch(session, use_cases)
                is_lost = session.lost_before_commit
            if is_lost:
                # A restart cut this connection while the batch was running; a new one may work.
                with self._session() as session:
                    result = run_batch(session, use_cases)
        except psycopg.Error as error:
            return BatchResult([Outcome(error=_unreachable(error)) for _ in use_cases], [])
        if session.commit_in_doubt:
            # If it was done, its events have not been passed on here.
            self._loop.call_soon_threadsafe(self._listener.catch_up)
        return result

    def _probe(self) -> StoreUnavailable | None:
        try:
            with self._session() as session:
                session.probe()
        except psycopg.Error as error:
            return _unreachable(error)
        return None

    @contextmanager
    def _session(self) -> Iterator[PostgresSession]:
        connection = take_connection(self._pool)
        try:
            yield PostgresSession(
                connection, self._node, self._channels.events, self._polls, self._epoch_floor
            )
        finally:
            self._pool.putconn(connection)


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
