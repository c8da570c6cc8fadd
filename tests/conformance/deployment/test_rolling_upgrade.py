"""Servers of two versions on one PostgreSQL: a newer program has more migrations."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace

import psycopg
import pytest

from shiftboss.coordinator.coordinator import Coordinator
from shiftboss.errors import IncompatibleServers, SchemaMismatch, ShiftbossError, StoreUnavailable
from shiftboss.store.postgres import schema
from shiftboss.store.postgres.store import PostgresStore
from shiftboss.store.queries import load_migrations, stops_older_servers, works_since
from tests.conformance.backends import cut_connections
from tests.conformance.opened import opened
from tests.conformance.store.rows import SWARM, add_event, add_swarm_with_event
from tests.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("OWN-05")]

OLD = load_migrations("postgres")
NEXT = OLD[-1][0] + 1
COMPATIBLE = [*OLD, (NEXT, "-- older servers: go on\nCREATE TABLE extra (name text);")]
INCOMPATIBLE = [*OLD, (NEXT, "ALTER TABLE holds RENAME COLUMN reason TO why;")]


@asynccontextmanager
async def server(address: str, migrations: list[tuple[int, str]]) -> AsyncIterator[Coordinator]:
    store = PostgresStore(address, migrations=migrations)
    # The rows of the tests are old.
    coordinator = Coordinator(store, verifies=False, retention_days=36_500)
    await coordinator.start()
    try:
        yield coordinator
    finally:
        await coordinator.stop()


def version_of(address: str) -> int:
    with psycopg.connect(address) as connection:
        row = connection.execute("SELECT max(number) FROM migrations").fetchone()
        assert row is not None
        return int(row[0])


def test_only_a_migration_that_says_so_lets_older_servers_go_on() -> None:
    assert not stops_older_servers("-- older servers: go on\nCREATE TABLE t (x integer);")
    assert stops_older_servers("CREATE TABLE t (x integer);")
    assert stops_older_servers("SELECT '-- older servers: go on'")
    assert works_since(COMPATIBLE) == works_since(OLD) < NEXT
    assert works_since(INCOMPATIBLE) == NEXT


async def test_two_versions_work_together_if_the_migration_allows_it(postgres_url: str) -> None:
    async with server(postgres_url, OLD) as old:
        await old.store.write(add_swarm_with_event, SWARM)
        async with server(postgres_url, COMPATIBLE) as new:
            await new.store.write(add_event, SWARM)
            await old.store.write(add_event, SWARM)
            stored = await new.store.read(lambda tx: tx.events_after(SWARM, 0, 10))
            assert len(stored) == 3
    async with server(postgres_url, OLD) as old:
        assert len(await old.store.read(lambda tx: tx.events_after(SWARM, 0, 10))) == 3
    assert version_of(postgres_url) == NEXT


async def test_an_incompatible_migration_waits_until_the_older_servers_have_stopped(
    postgres_url: str,
) -> None:
    async with server(postgres_url, OLD) as old:
        old.presence.address = "http://old:8080"
        await old.presence.renew()
        with pytest.raises(IncompatibleServers, match="http://old:8080") as refused:
            async with server(postgres_url, INCOMPATIBLE):
                pass
        assert "nothing was changed" in (refused.value.hint or "")
        assert "kill " in refused.value.detail
        assert version_of(postgres_url) == OLD[-1][0]
        await old.store.write(add_swarm_with_event, SWARM)
    async with server(postgres_url, INCOMPATIBLE) as new:
        assert await new.store.read(lambda tx: tx.swarm(SWARM)) is not None
        with pytest.raises(SchemaMismatch, match="supports up to"):
            async with server(postgres_url, OLD):
                pass


def test_connections_of_a_server_that_has_just_ended_are_waited_for(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        psycopg.connect(postgres_url, autocommit=True) as left,
        psycopg.connect(postgres_url, autocommit=True) as connection,
    ):
        left.execute(schema.HOLD_SCHEMA)

        def wait(seconds: float) -> None:
            left.close()
            time.sleep(seconds)

        monkeypatch.setattr(schema, "time", SimpleNamespace(monotonic=time.monotonic, sleep=wait))
        assert schema.migrate(connection, INCOMPATIBLE) == NEXT


async def test_a_server_that_was_cut_off_during_the_migration_stops(postgres_url: str) -> None:
    """It had no connection, so it could not keep the newer version from changing the database."""
    async with server(postgres_url, OLD) as old:
        given_up: list[ShiftbossError] = []
        old.presence.on_outdated = given_up.append
        old.presence.seconds = 0.05
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            # As if a newer server had migrated in between.
            connection.execute("UPDATE schema_support SET works_since = %s", [NEXT])
        await asyncio.to_thread(cut_connections, postgres_url)
        renewing = asyncio.create_task(old.presence.run())
        await eventually(lambda: given_up, "the server ends")
        renewing.cancel()
        assert isinstance(given_up[0], SchemaMismatch)
        with pytest.raises(StoreUnavailable):
            await old.store.write(add_swarm_with_event, SWARM)
        assert [reason.name for reason in await old.deployment.reasons()] == ["store"]


async def test_a_newer_file_is_used_only_if_it_says_that_it_can_be(sqlite_path: str) -> None:
    async with opened(sqlite_path) as store:
        await store.add_swarm()
    connection = sqlite3.connect(sqlite_path)
    connection.execute(f"PRAGMA user_version = {NEXT}")
    connection.close()
    async with opened(sqlite_path) as store:
        assert await store.read(lambda tx: tx.swarm(SWARM)) is not None
    connection = sqlite3.connect(sqlite_path)
    with connection:
        connection.execute("UPDATE schema_support SET works_since = ?", [NEXT])
    connection.close()
    with pytest.raises(SchemaMismatch):
        async with opened(sqlite_path):
            pass
