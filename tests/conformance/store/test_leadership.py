"""Leadership: held by the only server of a SQLite file, or by one of the servers on PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from shiftboss.store.port import Store
from tests.conformance.backends import add_schema, cut_connections
from tests.conformance.opened import opened
from tests.waiting import eventually

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
        try:
            await asyncio.Event().wait()
        finally:
            self.leads = False

    def _hear(self) -> None:
        self.calls += 1

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


@asynccontextmanager
async def candidate(address: str) -> AsyncIterator[Candidate]:
    async with opened(address) as it:
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
        assert await asyncio.to_thread(cut_connections, postgres_url, leader) == 1
        await eventually(lambda: not first.leads or first.begun == 2, "the duties are given up")
        await eventually(lambda: one.leads or other.leads, "one of them has the duties again")
        assert not (one.leads and other.leads)


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
