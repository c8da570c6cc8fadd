"""Failures specific to PostgreSQL: it goes down, comes back, or is unreachable."""

from __future__ import annotations

import asyncio
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from shiftboss.errors import OutcomeUnknown, StoreUnavailable
from shiftboss.rules.tasks.tasks import Worker
from shiftboss.store.port import Transaction
from shiftboss.store.postgres.store import PostgresStore
from tests.conformance.backends import connections, cut_connections
from tests.conformance.opened import OpenStore, opened
from tests.conformance.store.cut_connections import cutting_proxy
from tests.conformance.store.rows import SWARM, add_event, add_swarm_with_event
from tests.postgres import Postgres
from tests.waiting import eventually

pytestmark = pytest.mark.anyio


async def event_ids(store: OpenStore) -> list[int]:
    events = await store.read(lambda tx: tx.events_after(SWARM, 0, 1000))
    return [event.event_id for event in events]


async def test_writes_and_reads_work_after_a_postgres_restart(
    postgres_url: str, postgres: Postgres
) -> None:
    async with opened(postgres_url) as store:
        await asyncio.gather(*(store.add_swarm(f"s{number}") for number in range(20)))
        await store.write(add_swarm_with_event)
        for _ in range(2):
            await asyncio.to_thread(postgres.restart)
            assert await store.read(lambda tx: tx.swarm(SWARM)) is not None
            await asyncio.gather(
                *(store.write(lambda tx: tx.take_swarm("x"), f"s{n}") for n in range(20))
            )
            await store.write(add_event)
        assert await event_ids(store) == [1, 2, 3]


async def test_callers_get_an_error_while_postgres_is_down_and_it_recovers(
    postgres_url: str, postgres: Postgres
) -> None:
    async with opened(postgres_url) as store:
        await store.write(add_swarm_with_event)
        await asyncio.to_thread(postgres.stop)
        try:
            results = await asyncio.gather(
                store.write(add_event),
                store.write(add_event, "elsewhere"),
                store.read(lambda tx: tx.swarm(SWARM)),
                return_exceptions=True,
            )
        finally:
            await asyncio.to_thread(postgres.start)
        assert [type(result) for result in results] == [StoreUnavailable] * 3
        await eventually(lambda: store.store.failing() is None, "a probe needs no other write")
        assert (await store.write(add_event)).event_id == 2
        assert await event_ids(store) == [1, 2]


async def test_a_batch_whose_connection_is_lost_in_the_middle_is_run_once_more(
    postgres_url: str,
) -> None:
    async with opened(postgres_url) as store:
        await store.write(add_swarm_with_event)
        loop = asyncio.get_running_loop()
        written, cut = asyncio.Event(), threading.Event()

        def slow(tx: Transaction) -> None:
            add_event(tx)
            loop.call_soon_threadsafe(written.set)
            assert cut.wait(10)
            add_event(tx)

        writing = asyncio.gather(store.write(add_event), store.write(slow))
        await written.wait()
        assert await asyncio.to_thread(cut_connections, postgres_url) > 0
        cut.set()
        first, nothing = await writing
        assert (first.event_id, nothing) == (2, None)
        assert await event_ids(store) == [1, 2, 3, 4], "what the lost connection wrote is undone"


@pytest.fixture
def socket_folder() -> Iterator[Path]:
    """A path short enough for a socket."""
    with tempfile.TemporaryDirectory(prefix="shiftboss-") as folder:
        yield Path(folder)


async def test_a_commit_in_doubt_is_reported_as_such_and_never_repeated(
    postgres_url: str, socket_folder: Path
) -> None:
    async with cutting_proxy(postgres_url, socket_folder) as (url, proxy), opened(url) as store:
        await store.add_swarm()
        proxy.armed = True
        with pytest.raises(OutcomeUnknown, match="may or may not have been done"):
            await store.write(add_event)
        assert proxy.cuts == 1
        await eventually(lambda: store.heard, "the event of the commit is told here too")
        assert [event.event_id for event in store.heard] == [1]
        assert await event_ids(store) == [1]
        assert (await store.write(add_event)).event_id == 2


async def test_a_connection_that_postgres_ends_before_the_commit_is_no_doubt(
    postgres_url: str,
) -> None:
    """The COMMIT was sent with the write that waits for a lock, and PostgreSQL says that it ended
    the connection at the write. So nothing was done, and the batch runs again."""
    worker = Worker(SWARM, "w", None, True, 1, 1)
    async with opened(postgres_url) as store:
        await store.add_swarm()
        await store.write(lambda tx: tx.put_worker(worker))
        connect = psycopg.AsyncConnection.connect
        async with (
            await connect(postgres_url) as other,
            await connect(postgres_url, autocommit=True) as watching,
        ):
            await other.execute("SELECT 1 FROM workers FOR UPDATE")
            changed = worker._replace(last_activity_at_ms=2)
            writing = asyncio.ensure_future(store.write(lambda tx: tx.put_worker(changed)))
            async with asyncio.timeout(30):
                while not await _end_those_that_wait(watching):
                    pass
        await writing
        assert await store.read(lambda tx: tx.worker(SWARM, "w")) == changed


async def _end_those_that_wait(connection: psycopg.AsyncConnection) -> int:
    found = await connection.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE datname = current_database() AND cardinality(pg_blocking_pids(pid)) > 0"
    )
    return len(await found.fetchall())


async def test_statements_are_prepared_and_commits_are_durable(postgres_url: str) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        database = connection.info.dbname
        connection.execute(f"ALTER DATABASE {database} SET synchronous_commit = off".encode())
    async with opened(postgres_url) as store:
        await store.write(add_swarm_with_event)

        def look(session: object) -> tuple[str, int]:
            cursor = session._connection.cursor()  # type: ignore[attr-defined]
            (commit,) = cursor.execute("SHOW synchronous_commit").fetchone()
            (prepared,) = cursor.execute("SELECT count(*) FROM pg_prepared_statements").fetchone()
            return commit, prepared

        assert isinstance(store.store, PostgresStore)
        for _ in range(40):
            await store.read(lambda tx: tx.swarm(SWARM))
        commit, prepared = await store.store._in_snapshot(look)
        assert commit == "on"
        assert prepared > 0


async def test_a_store_leaves_no_connections_behind(postgres_url: str) -> None:
    async with opened(postgres_url) as store:
        await store.write(add_swarm_with_event)
        assert connections(postgres_url) > 0
    # PostgreSQL takes a moment to notice.
    await eventually(lambda: connections(postgres_url) == 0, "all connections are closed")
