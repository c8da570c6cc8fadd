"""The schema is the sum of the migrations, applied once, on every store."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from shiftboss.errors import SchemaMismatch
from shiftboss.rules.runs.records import Hold
from shiftboss.store.queries import load_migrations
from tests.conformance.opened import OpenStore, opened
from tests.conformance.store.rows import SWARM, swarm
from tests.conformance.store.schemas import (
    postgres_columns,
    postgres_schema,
    sqlite_columns,
    sqlite_schema,
)
from tests.postgres import Postgres

pytestmark = pytest.mark.anyio


@pytest.fixture
def bare_url(postgres: Postgres) -> Iterator[str]:
    """A PostgreSQL database without any tables."""
    with postgres.database("template0") as url:
        yield url


async def test_a_new_sqlite_file_gets_all_migrations(tmp_path: Path) -> None:
    new, by_hand = str(tmp_path / "new.db"), str(tmp_path / "by-hand.db")
    connection = sqlite3.connect(by_hand)
    for _, text in load_migrations("sqlite"):
        connection.executescript(text)
    connection.close()
    async with opened(new):
        assert sqlite_schema(new) == sqlite_schema(by_hand) != []


async def test_a_new_postgres_database_gets_all_migrations(
    bare_url: str, postgres: Postgres
) -> None:
    with postgres.database("template0") as by_hand:
        with psycopg.connect(by_hand, autocommit=True) as connection:
            for _, text in load_migrations("postgres"):
                connection.execute(text.encode())
        async with opened(bare_url):
            made = [row for row in postgres_schema(bare_url) if row[1] != "migrations"]
            assert made == postgres_schema(by_hand) != []


async def test_both_dialects_have_the_same_tables_columns_and_indexes(
    sqlite_path: str, postgres_url: str
) -> None:
    async with opened(sqlite_path):
        pass
    assert sqlite_columns(sqlite_path) == postgres_columns(postgres_url)
    ours = {row[2] for row in sqlite_schema(sqlite_path) if row[0] == "index" and row[3]}
    theirs = {row[2] for row in postgres_schema(postgres_url) if row[0] == "index"}
    assert ours == {name for name in theirs if not str(name).endswith("_pkey")}


async def test_migrations_are_applied_once_and_keep_existing_data(store_address: str) -> None:
    async with opened(store_address) as store:
        await store.add_swarm()
    for _ in range(2):
        async with opened(store_address) as again:
            assert await again.read(lambda tx: tx.swarm(SWARM)) == swarm()


@pytest.mark.parametrize(
    "change", ["DROP TABLE holds", "ALTER TABLE holds RENAME COLUMN reason TO why"]
)
async def test_the_schema_of_another_build_is_named(store_address: str, change: str) -> None:
    """Two builds can have made different migrations with the same number."""
    async with opened(store_address) as store:
        await store.add_swarm()
        if "://" in store_address:
            with psycopg.connect(store_address, autocommit=True) as connection:
                connection.execute(change.encode())
        else:
            other = sqlite3.connect(store_address)
            other.execute(change)
            other.close()
        hold = Hold(SWARM, "", "pause", "lunch", 1, None)
        with pytest.raises(SchemaMismatch, match="another build"):
            await store.read(lambda tx: tx.holds_of_swarm(SWARM, 1))
        with pytest.raises(SchemaMismatch, match="another build"):
            await store.write(lambda tx: tx.put_hold(hold))
        assert await store.read(lambda tx: tx.swarm(SWARM)) == swarm()


def test_a_task_that_waited_for_an_answer_still_does_after_the_migration() -> None:
    """It was a pause with a reason of its own."""
    migrations = [text for _, text in load_migrations("sqlite")]
    connection = sqlite3.connect(":memory:")
    for text in migrations[:9]:
        connection.executescript(text)
    connection.executescript(
        "INSERT INTO holds VALUES"
        " ('s', 'a', 'pause', 'waits for the answer to its question', 1, NULL);"
        "INSERT INTO holds VALUES ('s', 'b', 'pause', 'lunch', 1, 2);"
        "INSERT INTO holds VALUES ('s', 'b', 'budget', 'used up', 1, NULL);"
    )
    connection.executescript(migrations[9])
    kinds = connection.execute("SELECT task_id, kind, until_ms FROM holds").fetchall()
    assert kinds == [("a", "answer", None), ("b", "budget", None), ("b", "pause", 2)]
    connection.close()


def test_work_that_was_rejected_before_the_migration_stays_rejected() -> None:
    migrations = [text for _, text in load_migrations("sqlite")]
    connection = sqlite3.connect(":memory:")
    for text in migrations[:15]:
        connection.executescript(text)
    connection.executescript(
        "INSERT INTO receipts (receipt_id, swarm_id, task_id, title, body, accepted_at_ms, repo_id,"
        """ commit_sha) VALUES ('r', 's', 'a', 'A', '{"receipt": {"tree": "t"}}', 1, 'x', 'c');"""
        "INSERT INTO reviews VALUES ('s', 'a', 'r', 'c', 'rejected', 1, 'ada', 2, 'no');"
        "INSERT INTO reviews VALUES ('s', 'b', 'r', 'c', 'approved', 1, 'ada', 2, NULL);"
    )
    connection.executescript(migrations[15])
    rejections = connection.execute("SELECT * FROM rejections").fetchall()
    assert rejections == [("s", "a", "c", "t", "no", "ada", 2)]
    connection.close()


async def test_servers_that_start_simultaneously_do_not_collide(bare_url: str) -> None:
    stores = [OpenStore(bare_url) for _ in range(4)]
    await asyncio.gather(
        *(store.store.open(store.commits.append, lambda: None) for store in stores)
    )
    await stores[0].add_swarm()
    for one in stores:
        assert await one.read(lambda tx: tx.swarm(SWARM)) == swarm()
        await one.store.close()
    with psycopg.connect(bare_url) as connection:
        applied = connection.execute("SELECT number FROM migrations ORDER BY number").fetchall()
    assert applied == [(number,) for number, _ in load_migrations("postgres")]
