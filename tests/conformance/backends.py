"""Inspect and cut the connections of a PostgreSQL database."""

from __future__ import annotations

from urllib.parse import quote

import psycopg
from psycopg.sql import SQL, Identifier

from tests.postgres_reset import APPLICATION

_OTHERS = (
    "datname = current_database() AND pid <> pg_backend_pid() "
    f"AND application_name <> '{APPLICATION}'"
)


def cut_connections(url: str, which: str = "true") -> int:
    """Terminate all other connections to the database; returns how many there were."""
    with psycopg.connect(url, autocommit=True) as connection:
        rows = connection.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
            f"WHERE {_OTHERS} AND {which}".encode()
        )
        return len(rows.fetchall())


def add_schema(url: str, schema: str) -> str:
    """The address of a new schema in the database, next to `public`."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(SQL("CREATE SCHEMA {}").format(Identifier(schema)))
    quoted = schema.replace('"', '""')
    # libpq splits the options at unescaped spaces.
    setting = f'-csearch_path="{quoted}"'.replace("\\", "\\\\").replace(" ", "\\ ")
    return f"{url}{'&' if '?' in url else '?'}options={quote(setting, safe='')}"


def connections(url: str) -> int:
    """The number of clients of the database, without this one."""
    with psycopg.connect(url) as connection:
        row = connection.execute(
            "SELECT count(*) FROM pg_stat_activity "
            f"WHERE {_OTHERS} AND backend_type = 'client backend'".encode()
        )
        (count,) = row.fetchone() or (0,)
        return int(count)
