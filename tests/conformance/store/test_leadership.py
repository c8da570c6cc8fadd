"""Leadership: held by the only server of a SQLite file, or by one of the servers on PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from typing import NamedTuple

import psycopg
import pytest

from shiftboss.errors import LeadershipLost
from shiftboss.store.deadlines import DatabaseDeadlines
from shiftboss.store.leader_store import LeaderStore
from shiftboss.store.port import Store
from shiftboss.store.postgres.leadership import RELEASED
from shiftboss.store.postgres.notifications import Channels, listen
from shiftboss.store.postgres.session import named_queries
from shiftboss.store.postgres.store import PostgresStore
from shiftboss.system.elapsed import elapsed_seconds
from tests.conformance.backends import add_schema, connections, cut_connections
from tests.conformance.opened import opened
from tests.conformance.store.rows import SWARM, add_event, add_swarm_with_event
from tests.waiting import eventually, wait_until

pytestmark = pytest.mark.anyio


class Candidate:
    """A server that may become the leader."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.leads = False
        self.begun = 0
        self.calls = 0
        self._task = asyncio.create_task(store.lead(self._duties, self._hear))

    async def _duties(self) -> None:
        self.leads, self.begun = True, self.begun + 1
        self.fails = asyncio.Event()
        try:
            await self.fails.wait()
            raise RuntimeError("a duty that nobody expected to end")
        finally:
            self.leads = False

    def _hear(self) -> None:
        self.calls += 1

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


@asynccontextmanager
async def candidate(address: str, lead_seconds: float = 10.0) -> AsyncIterator[Candidate]:
    async with opened(address, DatabaseDeadlines(lead=lead_seconds)) as it:
        found = Candidate(it.store)
        try:
            yield found
        finally:
            await found.stop()


async def test_a_single_server_runs_the_duties_until_it_stops(store_address: str) -> None:
    async with candidate(store_address) as only:
        await eventually(lambda: only.leads, "the only server has the duties")
        await only.store.call_leader()
    assert not only.leads


async def test_one_of_two_servers_runs_the_duties_and_the_other_takes_over(
    postgres_url: str,
) -> None:
    async with candidate(postgres_url) as other:
        async with candidate(postgres_url) as one:
            await eventually(lambda: one.leads or other.leads, "somebody has the duties")
            first, second = (one, other) if one.leads else (other, one)
            # The leader is notified by each server, and the other has tried meanwhile.
            await first.store.call_leader()
            await eventually(lambda: first.calls == 1, "its own call is heard")
            await second.store.call_leader()
            await eventually(lambda: first.calls == 2, "the call of the other is heard")
            assert not second.leads
            assert second.calls == 0
            await first.stop()
            await eventually(lambda: second.leads, "the other has taken over")
        await eventually(lambda: other.leads is (second is other), "it stays")


async def test_a_leader_that_loses_its_connection_stops_and_one_server_continues(
    postgres_url: str,
) -> None:
    async with candidate(postgres_url) as one, candidate(postgres_url) as other:
        await eventually(lambda: one.leads or other.leads, "somebody has the duties")
        first = one if one.leads else other
        leader = "query LIKE '%UPDATE leadership%'"
        # The other one may have tried at this moment, too.
        assert await asyncio.to_thread(cut_connections, postgres_url, leader) >= 1
        await eventually(lambda: not first.leads or first.begun == 2, "the duties are given up")
        await eventually(lambda: one.leads or other.leads, "one of them has the duties again")
        assert not (one.leads and other.leads)


@pytest.mark.requirement("OWN-05")
async def test_a_leader_whose_duties_end_with_an_error_gives_up_the_lead(
    postgres_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with candidate(postgres_url, 1.0) as one, candidate(postgres_url, 1.0) as other:
        await eventually(lambda: one.leads or other.leads, "somebody has the duties")
        first, second = (one, other) if one.leads else (other, one)
        first.fails.set()
        await eventually(lambda: second.leads, "the other has taken over")
        assert "the lead is given up" in caplog.text
    async with candidate(postgres_url, 1.0) as alone:
        await eventually(lambda: alone.leads, "the only server has the duties")
        alone.fails.set()
        await eventually(lambda: alone.begun == 2, "it starts them again")


async def test_schemas_of_one_database_have_separate_leaders(postgres_url: str) -> None:
    elsewhere = await asyncio.to_thread(add_schema, postgres_url, "elsewhere")
    async with candidate(postgres_url) as one, candidate(elsewhere) as other:
        await eventually(lambda: one.leads and other.leads, "each has its duties")
        await one.store.call_leader()
        await other.store.call_leader()
        await other.store.call_leader()
        await eventually(lambda: one.calls >= 1 and other.calls >= 2, "each hears its own calls")
        await other.store.call_leader()
        await eventually(lambda: other.calls >= 3, "it hears its own call")
        assert (one.calls, other.calls) == (1, 3)


# -- terms


@contextmanager
def taken_over(url: str) -> Iterator[None]:
    """As another server does when the leader was silent for too long."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "UPDATE leadership SET term = term + 1, leader = 'other', backend_pid ="
            " pg_backend_pid(),"
            " expires_at_ms = (extract(epoch FROM clock_timestamp()) * 1000)::bigint + 60000"
        )
        yield


async def test_a_leader_whose_term_is_over_commits_nothing_and_steps_down(
    postgres_url: str,
) -> None:
    async with candidate(postgres_url, lead_seconds=1.0) as stopped:
        await eventually(lambda: stopped.leads, "it leads")
        leading = LeaderStore(stopped.store)
        await leading.write(add_swarm_with_event, SWARM)
        term = stopped.store.leader_term()
        assert term is not None
        with taken_over(postgres_url):
            # Its own lease is not over: only the transaction can know.
            plain, fenced = await asyncio.gather(
                stopped.store.write(add_event, SWARM),
                leading.write(add_event, SWARM),
                return_exceptions=True,
            )
            assert isinstance(fenced, LeadershipLost)
            assert not isinstance(plain, BaseException), "what is no duty goes on"
            assert stopped.store.failing() is None
            events = await stopped.store.read(lambda tx: tx.events_after(SWARM, 0, 10))
            assert [event.event_id for event in events] == [1, plain.event_id]
            await eventually(lambda: not stopped.leads, "it steps down")
            with pytest.raises(LeadershipLost):
                await leading.read(lambda tx: tx.swarm(SWARM))
            assert not leading.leads()


async def test_a_lease_that_ran_out_here_is_not_trusted_before_it_is_renewed(
    postgres_url: str,
) -> None:
    """After SIGSTOP or a suspended machine, before anything is asked."""
    asleep = [0.0]
    store = PostgresStore(
        postgres_url, DatabaseDeadlines(lead=30.0), lambda: elapsed_seconds() + asleep[0]
    )
    await store.open(lambda _: None, lambda: None)
    server = Candidate(store)
    try:
        await eventually(lambda: server.leads, "it leads")
        leading = LeaderStore(store)
        assert leading.leads()
        asleep[0] = 31.0
        assert not leading.leads()
        with pytest.raises(LeadershipLost):
            await leading.write(add_swarm_with_event, SWARM)
    finally:
        await server.stop()
        await store.close()


def test_nobody_takes_over_within_a_transaction_of_the_leader_which_renews_meanwhile(
    postgres_url: str,
) -> None:
    queries = named_queries()
    take = {"node": "b", "lead_ms": 1000, "lead_ms_max": 300_000}
    with (
        psycopg.connect(postgres_url) as duty,
        psycopg.connect(postgres_url, autocommit=True) as other,
    ):
        assert duty.execute(queries["hold_term"], {"term": 0}).fetchone() == (1,)
        other.execute("SET lock_timeout = '100ms'")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            other.execute(queries["take_lead"], take)
        assert other.execute(queries["renew_lead"], {"term": 0, "lead_ms": 0}).rowcount == 1
        duty.commit()
        assert other.execute(queries["take_lead"], take).fetchone() == (1,)
        assert duty.execute(queries["hold_term"], {"term": 0}).fetchone() is None


class LeaseCase(NamedTuple):
    left_ms: int
    is_leader_connected: bool
    is_free: bool


@pytest.mark.parametrize(
    "case",
    [
        LeaseCase(-1, is_leader_connected=True, is_free=True),
        LeaseCase(5_000, is_leader_connected=True, is_free=False),
        # The leader has died.
        LeaseCase(5_000, is_leader_connected=False, is_free=True),
        # The clock of the database was set back by an hour.
        LeaseCase(3_600_000, is_leader_connected=True, is_free=True),
    ],
)
def test_the_lead_is_free_when_nobody_can_hold_it_any_more(
    postgres_url: str, case: LeaseCase
) -> None:
    take_lead = named_queries()["take_lead"]
    lead = {"lead_ms": case.left_ms, "lead_ms_max": 300_000}
    with psycopg.connect(postgres_url, autocommit=True) as other, ExitStack() as connected:
        leader = connected.enter_context(psycopg.connect(postgres_url, autocommit=True))
        assert leader.execute(take_lead, {"node": "a", **lead}).fetchone() == (1,)
        if not case.is_leader_connected:
            connected.close()
            wait_until(lambda: connections(postgres_url) == 1, "PostgreSQL has noticed")
        taken = other.execute(take_lead, {"node": "b", **lead}).fetchone()
        assert taken == ((2,) if case.is_free else None)


async def test_a_leader_that_stops_hands_over_at_once(postgres_url: str) -> None:
    async with (
        candidate(postgres_url, lead_seconds=300.0) as one,
        candidate(postgres_url, lead_seconds=300.0) as other,
        await psycopg.AsyncConnection.connect(postgres_url, autocommit=True) as listener,
    ):
        await eventually(lambda: one.leads or other.leads, "somebody has the duties")
        first, second = (one, other) if one.leads else (other, one)
        await listen(listener, Channels.of_schema("public").duties)
        await first.stop()
        # The others do not wait for their next look.
        calls = [call.payload async for call in listener.notifies(timeout=10, stop_after=1)]
        assert calls == [RELEASED]
        await eventually(lambda: second.leads, "the other has taken over, long before the end")
