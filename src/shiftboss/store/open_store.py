"""Opening the store that an address names."""

from __future__ import annotations

from pathlib import Path

from shiftboss.defaults import DATABASE_FILE, STATE_FOLDER
from shiftboss.errors import InvalidRequest
from shiftboss.store.deadlines import DEFAULT_DEADLINES, DatabaseDeadlines
from shiftboss.store.port import Store
from shiftboss.store.sqlite.store import SqliteStore

DEFAULT_DATABASE = Path(STATE_FOLDER) / DATABASE_FILE


def is_postgres(address: str | Path) -> bool:
    return str(address).startswith(("postgresql://", "postgres://"))


def in_schema(address: str | Path, schema: str | None) -> str | Path:
    """The address of the deployment that has this schema of the database to itself."""
    if schema is None:
        return address
    if not is_postgres(address):
        raise InvalidRequest(
            "schema: only PostgreSQL has schemas",
            field="schema",
            hint="use --db postgresql://..., or another file for another deployment",
        )
    from shiftboss.store.postgres.schema_address import with_schema

    return with_schema(str(address), schema)


def store_at(
    address: str | Path,
    *,
    cache_rows: bool = True,
    deadlines: DatabaseDeadlines = DEFAULT_DEADLINES,
) -> Store:
    """`postgresql://...` is a PostgreSQL server, anything else the path of a SQLite file.

    `cache_rows` is for SQLite, where only one server writes; `deadlines` are for PostgreSQL.
    """
    if is_postgres(address):
        # psycopg is optional, and importing it takes 140 ms.
        from shiftboss.store.postgres.store import PostgresStore

        return PostgresStore(str(address), deadlines)
    scheme, separator, _ = str(address).partition("://")
    if separator:
        raise InvalidRequest(
            f"db: {scheme}:// is not supported",
            field="db",
            hint="use a path for SQLite, or postgresql://...",
        )
    return SqliteStore(address, cache_rows=cache_rows)
