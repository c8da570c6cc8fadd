"""Several deployments in one database, each in a schema of its own that its address names."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from shiftboss.errors import DatabaseInUse, InvalidRequest, StoreUnavailable
from shiftboss.protocol.events import Event
from shiftboss.store.backups.backup import back_up, restore
from shiftboss.store.open_store import in_schema
from shiftboss.store.port import Transaction
from shiftboss.store.postgres.connections import connection_parameters
from shiftboss.store.postgres.schema_address import make_schema, split_schema, with_schema
from shiftboss.store.postgres.snapshot_reading import read_postgres_snapshot
from tests.conformance.opened import opened
from tests.conformance.store.rows import SWARM, add_event, add_swarm_with_event
from tests.waiting import eventually, wait_until

pytestmark = pytest.mark.anyio


def events(tx: Transaction) -> list[Event]:
    return tx.events_after(SWARM, 0, 100)


async def test_deployments_in_two_schemas_have_nothing_to_do_with_each_other(
    postgres_url: str, tmp_path: Path
) -> None:
    first, second, copy = (with_schema(postgres_url, name) for name in ("team_a", "team_b", "copy"))
    saved = tmp_path / "saved.backup"
    async with opened(first) as one:
        await one.write(add_swarm_with_event)
        async with opened(second) as other:
            await other.write(add_swarm_with_event)
            await other.write(add_event)
            assert len(await one.read(events)) == 1
            assert len(await other.read(events)) == 2
            assert [len(commit) for commit in one.commits] == [1]
            await asyncio.to_thread(back_up, second, saved, now_ms=now_ms())
            assert (await asyncio.to_thread(read_postgres_snapshot, second, events)).is_in_use
        # Servers on another schema do not keep a deployment from being checked or replaced.
        # PostgreSQL needs a moment to end the processes of closed connections.
        await eventually(
            lambda: not read_postgres_snapshot(second, events).is_in_use, "it is not in use"
        )
        await asyncio.to_thread(restore, second, saved, force=True, now_ms=now_ms())
        await asyncio.to_thread(restore, copy, saved, force=False, now_ms=now_ms())
        with pytest.raises(DatabaseInUse):
            await asyncio.to_thread(restore, first, saved, force=True, now_ms=now_ms())
    for address in (second, copy):
        reading = await asyncio.to_thread(read_postgres_snapshot, address, events)
        assert len(reading.value or []) == 2


async def test_a_search_path_in_the_options_names_a_schema_too(postgres_url: str) -> None:
    separator = "&" if "?" in postgres_url else "?"
    async with opened(f"{postgres_url}{separator}options=-csearch_path%3Dteam_c") as store:
        await store.write(add_swarm_with_event)
    async with opened(with_schema(postgres_url, "team_c")) as store:
        assert len(await store.read(events)) == 1


def test_two_servers_that_start_at_once_make_the_same_schema(postgres_url: str) -> None:
    parameters = connection_parameters(with_schema(postgres_url, "team_d"))

    def is_waiting() -> bool:
        row = looking.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE pid = %s AND wait_event_type = 'Lock'",
            [second.info.backend_pid],
        ).fetchone()
        return row == (1,)

    with (
        psycopg.connect(**parameters) as first,
        psycopg.connect(**parameters, autocommit=True) as second,
        psycopg.connect(**parameters, autocommit=True) as looking,
        ThreadPoolExecutor(1) as thread,
    ):
        make_schema(first)
        made = thread.submit(make_schema, second)
        wait_until(is_waiting, "the second one waits for the first")
        first.commit()
        made.result(30)
        assert second.execute("SELECT current_schema()").fetchone() == ("team_d",)


@pytest.mark.parametrize("name", ["", "Team", "pg_team", "a b", "a,b", "1st", "x" * 64, 'a"b', "é"])
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(StoreUnavailable) as refused:
        with_schema("postgresql://db/shiftboss", name)
    assert refused.value.field == "schema"


def test_the_rest_of_the_address_stays_as_it_is() -> None:
    address = (
        "postgresql://me:pw%2Bb+c@db/shiftboss?options=-c%20jit%3Doff&schema=b&sslmode=require"
    )
    rest = "postgresql://me:pw%2Bb+c@db/shiftboss?options=-c%20jit%3Doff&sslmode=require"
    assert split_schema(address) == (rest, "b")
    assert split_schema(with_schema(address, "c")) == (rest, "c")
    assert split_schema("postgresql://db/shiftboss?schema=b") == ("postgresql://db/shiftboss", "b")
    assert split_schema(rest) == (rest, None)


def test_a_file_has_no_schemas() -> None:
    assert in_schema("shiftboss.db", None) == "shiftboss.db"
    with pytest.raises(InvalidRequest) as refused:
        in_schema("shiftboss.db", "team_a")
    assert refused.value.field == "schema"


def now_ms() -> int:
    return time.time_ns() // 1_000_000
