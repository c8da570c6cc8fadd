"""Tests use the same databases one after the other, and none sees what another has left."""

from __future__ import annotations

import psycopg
import pytest

from tests.postgres import Postgres


def _contents(url: str) -> dict[str, list[tuple[object, ...]]]:
    with psycopg.connect(url) as connection:
        names = connection.execute(
            "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace "
            "AND relkind = 'r'"
        ).fetchall()
        return {
            name: connection.execute(f"SELECT * FROM {name} ORDER BY 1".encode()).fetchall()
            for (name,) in names
        }


def test_a_used_database_is_as_empty_as_a_new_one(postgres: Postgres) -> None:
    with postgres.database() as used:
        before = _contents(used)
        with psycopg.connect(used) as connection:
            connection.execute("INSERT INTO migrations VALUES (9999)")
            connection.execute("DELETE FROM migrations WHERE number = 1")
    with postgres.database() as first, postgres.database() as second:
        assert used in (first, second)
        assert _contents(used) == before


@pytest.mark.parametrize(
    "change",
    [
        "DROP TABLE retries",
        "ALTER TABLE tasks ADD COLUMN more text",
        "CREATE SCHEMA other",
        "CREATE FUNCTION one() RETURNS int LANGUAGE sql AS 'SELECT 1'",
        "DO $$BEGIN EXECUTE format('ALTER DATABASE %I SET jit = off', current_database()); END$$",
    ],
)
def test_a_database_with_another_schema_or_setting_is_not_used_again(
    postgres: Postgres, change: str
) -> None:
    with postgres.database() as changed, psycopg.connect(changed, autocommit=True) as connection:
        connection.execute(change.encode())
    with postgres.database() as first, postgres.database() as second:
        assert changed not in (first, second)


def test_a_database_that_is_still_in_use_is_not_used_again(postgres: Postgres) -> None:
    with postgres.database() as in_use:
        connection = psycopg.connect(in_use)
    with postgres.database() as first, postgres.database() as second:
        assert in_use not in (first, second)
    connection.close()
