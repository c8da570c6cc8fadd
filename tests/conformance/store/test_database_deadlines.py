"""A PostgreSQL that hangs, and locks that somebody else holds: nobody waits for ever."""

from __future__ import annotations

import asyncio
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from zlib import crc32

import psycopg
import pytest

from shiftboss.errors import StoreUnavailable
from shiftboss.protocol.events import Event
from shiftboss.store.deadlines import DatabaseDeadlines
from shiftboss.store.port import Transaction
from shiftboss.store.postgres.locked_swarms import THREADS
from shiftboss.store.postgres.store import WRITERS, PostgresStore
from tests.conformance.opened import OpenStore, opened
from tests.conformance.store.cut_connections import cutting_proxy
from tests.conformance.store.rows import SWARM, add_event, add_swarm_with_event
from tests.postgres import Postgres
from tests.waiting import eventually

pytestmark = pytest.mark.anyio

# The busiest machine needs less for what these tests do.
BOUND_SECONDS = 20.0


@asynccontextmanager
async def bounded(url: str, **deadlines: float) -> AsyncIterator[OpenStore]:
    async with opened(url, DatabaseDeadlines(**deadlines)) as store:
        await store.write(add_swarm_with_event)
        yield store


@contextmanager
def row_lock(url: str, swarm_id: str = SWARM) -> Iterator[psycopg.Connection]:
    """As a person with psql has it who has forgotten to commit."""
    with psycopg.connect(url) as stranger:
        stranger.execute("SELECT 1 FROM swarms WHERE swarm_id = %s FOR UPDATE", [swarm_id])
        yield stranger


def neighbours(swarm_id: str, count: int) -> list[str]:
    """Other swarms of the same writer, before and after it in the order of a batch."""
    writer = crc32(swarm_id.encode()) % WRITERS
    names = (f"{letter}-{number}" for number in range(100) for letter in "az")
    return [name for name in names if crc32(name.encode()) % WRITERS == writer][:count]


# -- a database that hangs


async def test_a_frozen_postgres_is_an_error_in_bounded_time_and_then_works_again(
    postgres_url: str, postgres: Postgres
) -> None:
    async with bounded(postgres_url, statement=0.5, margin=0.2) as store:
        calls = [
            *(store.write(add_event) for _ in range(20)),
            *(store.write(add_event, f"elsewhere-{number}") for number in range(20)),
            *(store.read(lambda tx: tx.swarm(SWARM)) for _ in range(200)),
        ]
        began = time.monotonic()
        with postgres.frozen():
            results = await asyncio.gather(*calls, return_exceptions=True)
        took = time.monotonic() - began
        assert {type(result) for result in results} == {StoreUnavailable}
        assert took < BOUND_SECONDS
        hints = {result.hint for result in results[:20] if isinstance(result, StoreUnavailable)}
        assert hints == {"nothing was changed; send the same report again"}

        async def writes() -> bool:
            try:
                return (await store.write(add_event)).event_id == 2
            except StoreUnavailable:
                return False

        await wait_for(writes, "it recovers by itself")


async def test_a_network_that_freezes_blocks_neither_this_server_nor_the_others(
    postgres_url: str,
) -> None:
    """The transaction that the network has swallowed gives up its locks by itself."""
    with tempfile.TemporaryDirectory(prefix="shiftboss-") as folder:
        async with (
            cutting_proxy(postgres_url, Path(folder)) as (url, proxy),
            bounded(url, statement=0.5, margin=0.2) as store,
            opened(postgres_url, DatabaseDeadlines(lock=BOUND_SECONDS)) as healthy,
        ):
            held = asyncio.Event()
            loop = asyncio.get_running_loop()
            frozen = threading.Event()

            def hold(tx: Transaction) -> None:
                tx.take_swarm(SWARM)
                loop.call_soon_threadsafe(held.set)
                assert frozen.wait(BOUND_SECONDS)
                add_event(tx)

            writing = asyncio.ensure_future(store.write(hold))
            await held.wait()
            proxy.passes.clear()
            frozen.set()
            # The lock is still held there, and given up in time.
            assert (await healthy.write(add_event)).event_id == 2
            with pytest.raises(StoreUnavailable):
                await writing
            with pytest.raises(StoreUnavailable):
                await store.read(lambda tx: tx.swarm(SWARM))
            proxy.passes.set()

            async def reads() -> bool:
                try:
                    events = await store.read(lambda tx: tx.events_after(SWARM, 0, 10))
                except StoreUnavailable:
                    return False
                return len(events) == 2

            await wait_for(reads, "it recovers by itself")


async def wait_for(condition: object, what: str) -> None:
    assert callable(condition)
    deadline = time.monotonic() + BOUND_SECONDS
    while not await condition():
        assert time.monotonic() < deadline, what
        await asyncio.sleep(0.05)


async def test_a_statement_that_takes_too_long_is_ended_by_postgres(postgres_url: str) -> None:
    async with bounded(postgres_url, statement=0.5) as store:
        assert isinstance(store.store, PostgresStore)
        slow = store.store._in_snapshot(
            lambda session: session._connection.execute("SELECT pg_sleep(60)").fetchone()
        )
        with pytest.raises(StoreUnavailable, match="statement timeout"):
            await slow
        assert await store.read(lambda tx: tx.swarm(SWARM)) is not None


async def test_a_transaction_that_stands_still_is_ended_by_postgres(postgres_url: str) -> None:
    """A server that is stopped within a transaction does not keep its locks."""
    async with bounded(postgres_url, statement=0.5) as store:
        stopped, goes_on = threading.Event(), threading.Event()

        def stop_once(tx: Transaction) -> None:
            tx.take_swarm(SWARM)
            if not stopped.is_set():
                stopped.set()
                assert goes_on.wait(BOUND_SECONDS)
            add_event(tx)

        writing = asyncio.ensure_future(store.write(stop_once))
        assert await asyncio.to_thread(stopped.wait, BOUND_SECONDS)
        with psycopg.connect(postgres_url) as other:
            await asyncio.to_thread(
                other.execute, "SELECT 1 FROM swarms WHERE swarm_id = %s FOR UPDATE", [SWARM]
            )
        goes_on.set()
        await writing  # with a new connection
        assert len(await store.read(lambda tx: tx.events_after(SWARM, 0, 10))) == 2


# -- locks of others


async def test_a_locked_swarm_holds_up_no_other_swarm_of_its_writer(postgres_url: str) -> None:
    async with bounded(postgres_url, lock=60.0) as store:
        others = neighbours(SWARM, 6)
        for name in others:
            await store.write(partial(add_swarm_with_event, swarm_id=name), name)
        with row_lock(postgres_url):
            locked = [asyncio.ensure_future(store.write(add_event)) for _ in range(5)]
            for _ in range(3):
                async with asyncio.timeout(BOUND_SECONDS):
                    await asyncio.gather(
                        *(store.write(partial(add_event, swarm_id=name), name) for name in others)
                    )
            # Some more, which must not overtake the first.
            locked += [asyncio.ensure_future(store.write(add_event)) for _ in range(5)]
            await store.write(partial(add_event, swarm_id=others[0]), others[0])
            assert not any(call.done() for call in locked)
            assert store.store.failing() is None
        events = await asyncio.gather(*locked)
        assert [event.event_id for event in events] == list(range(2, 12))
        heard = [event.event_id for event in store.heard if event.swarm_id == SWARM]
        assert heard == list(range(1, 12))
        # It is an ordinary swarm again, whose writes share a commit.
        before = len(store.commits)
        await asyncio.gather(*(store.write(add_event) for _ in range(5)))
        assert len(store.commits) == before + 1


async def test_writes_of_a_swarm_stay_in_order_when_its_lock_is_free_again(
    postgres_url: str,
) -> None:
    async with bounded(postgres_url, lock=60.0) as store:
        *busy, other = neighbours(SWARM, THREADS + 1)
        for name in (*busy, other):
            await store.write(partial(add_swarm_with_event, swarm_id=name), name)
        assert isinstance(store.store, PostgresStore)
        waiting = store.store._locked_swarms._waiting

        def add(swarm_id: str) -> asyncio.Future[Event]:
            add_one = partial(add_event, swarm_id=swarm_id)
            return asyncio.ensure_future(store.write(add_one, swarm_id))

        with ExitStack() as locked:
            for name in busy:
                locked.enter_context(row_lock(postgres_url, name))
            with row_lock(postgres_url, other):
                others = [add(name) for name in busy]
                await eventually(lambda: len(waiting) == THREADS, "every thread waits for a lock")
                first = add(other)
                await eventually(lambda: other in waiting, "another swarm waits for a thread")
            # Its lock is free, and its first write still waits.
            second = add(other)
            await eventually(lambda: waiting[other] == 2, "the second write queues up")
            assert not any(call.done() for call in (first, second))
        events = await asyncio.gather(*others, first, second)
        assert [event.event_id for event in events] == [2] * THREADS + [2, 3]


async def test_a_swarm_that_stays_locked_is_an_error_and_recovers(postgres_url: str) -> None:
    async with bounded(postgres_url, lock=0.2) as store:
        with row_lock(postgres_url):
            results = await asyncio.gather(
                *(store.write(add_event) for _ in range(5)), return_exceptions=True
            )
        for result in results:
            assert isinstance(result, StoreUnavailable)
            assert "locked" in result.detail
            assert result.hint == "nothing was changed; send the same report again"
        assert store.store.failing() is None, "a lock on one swarm is not an ill database"
        assert (await store.write(add_event)).event_id == 2


async def test_a_store_that_is_closed_finishes_what_waits_for_a_lock(postgres_url: str) -> None:
    async with bounded(postgres_url, lock=60.0) as store:
        with row_lock(postgres_url) as stranger:
            locked = asyncio.ensure_future(store.write(add_event))
            assert isinstance(store.store, PostgresStore)
            waiting = store.store._locked_swarms._waiting
            await eventually(lambda: waiting.get(SWARM) == 1, "it waits for the lock")
            closing = asyncio.ensure_future(store.store.close())
            await asyncio.sleep(0)
            stranger.commit()
            await closing
        assert (await locked).event_id == 2
        store.store._exit.pop_all()
