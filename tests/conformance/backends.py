"""Inspect and cut the connections of a PostgreSQL database."""

from __future__ import annotations

from urllib.parse import quote

import psycopg
from psycopg.sql import SQL, Identifier


def cut_connections(url: str, which: str = "true") -> int:
    """Terminate all other connections to the database; returns how many there were."""
    with psycopg.connect(url, autocommit=True) as connection:
        rows = connection.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
            f"WHERE datname = current_database() AND pid <> pg_backend_pid() AND {which}".encode()
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
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
            "AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
        )
        (count,) = row.fetchone() or (0,)
        return int(count)
