"""The schema of a PostgreSQL database that servers of two versions may share for a while.

Every connection of a server holds a lock, which it shares with the other servers. A migration that
older servers cannot work with needs this lock for itself: it is refused while any of them is
connected. A server whose connections were all cut meanwhile reads, on its next one, that it can no
longer work with the database.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

import psycopg

from shiftboss.errors import IncompatibleServers, SchemaMismatch
from shiftboss.store.queries import check_schema_version, stops_older_servers, works_since

Migrations = Sequence[tuple[int, str]]

# A server that has just ended leaves its connections for so long.
ENDING_SECONDS: Final = 1.0
_PAUSE_SECONDS: Final = 0.02

# Arbitrary numbers that no other program locks in the same database.
MIGRATION_LOCK: Final = 0x5348_4946_5442_4F53
_SERVERS_LOCK: Final = 0x5348_4946

# Stores in different schemas of a database have nothing to do with each other.
HOLD_SCHEMA: Final = f"""
SELECT pg_advisory_lock_shared({_SERVERS_LOCK}, hashtext(current_schema()));
"""
_TAKE_SCHEMA: Final = f"""
SELECT pg_try_advisory_xact_lock({_SERVERS_LOCK}, hashtext(current_schema()))
"""
# The connections that hold it, apart from this one, and the process `leading`: servers of versions
# before the lock have at least a leader.
SERVER_CONNECTIONS: Final = f"""
SELECT count(*) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND (pid = %(leading)s
    OR pid IN (SELECT l.pid FROM pg_locks AS l JOIN pg_database AS d ON d.oid = l.database
        WHERE l.locktype = 'advisory' AND d.datname = current_database()
        AND l.classid::bigint = {_SERVERS_LOCK} AND l.objsubid = 2
        AND l.objid::bigint = hashtext(current_schema())::bigint & 4294967295))
"""  # noqa: S608 (a number of ours)
# Of servers before the lock. It cannot be told which schema they use.
_OLD_CONNECTIONS: Final = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND application_name = 'shiftboss' AND pid <> pg_backend_pid()
"""
_LAST_SEEN: Final = """
SELECT version, address, host, facts::json ->> 'pid' FROM servers
WHERE stopped_at_ms IS NULL
    AND seen_at_ms > (extract(epoch FROM clock_timestamp()) * 1000)::bigint - 60000
ORDER BY started_at_ms
"""


def migrate(connection: psycopg.Connection, migrations: Migrations) -> int:
    """Bring the schema up to date, all or nothing; its version. Other servers that start wait for
    it. Raises SchemaMismatch, or IncompatibleServers if others have to stop first."""
    execute = connection.execute
    with connection.transaction():
        execute("SELECT pg_advisory_xact_lock(%s)", [MIGRATION_LOCK])
        if execute("SELECT to_regclass('migrations')").fetchone() == (None,):
            execute("CREATE TABLE migrations (number integer PRIMARY KEY)")
        applied = {number for (number,) in execute("SELECT number FROM migrations")}
        check_schema_version(max(applied, default=0), migrations, supported_since(connection))
        pending = [(number, text) for number, text in migrations if number not in applied]
        if applied and any(stops_older_servers(text) for _, text in pending):
            _check_alone(connection, max(applied))
        for number, text in pending:
            execute(text.encode())
            execute("INSERT INTO migrations (number) VALUES (%s)", [number])
        if pending:
            raise_support(connection, works_since(migrations))
    return max(applied | {number for number, _ in pending})


def supported_since(connection: psycopg.Connection) -> int | None:
    """The oldest schema version whose servers can work with the database. None: unknown, as the
    database is older than this rule."""
    if connection.execute("SELECT to_regclass('schema_support')").fetchone() == (None,):
        return None
    row = connection.execute("SELECT works_since FROM schema_support").fetchone()
    return None if row is None else int(row[0])


def outdated(since: int | None, known: int) -> SchemaMismatch | None:
    """The error of a server that knows the schema up to `known`, if that is no longer enough."""
    if since is None or since <= known:
        return None
    return SchemaMismatch(
        f"a newer version has changed the database: it needs servers that know schema version "
        f"{since}, and this one knows {known}",
        hint="upgrade this server",
    )


def raise_support(connection: psycopg.Connection, since: int) -> None:
    """Servers that know less than schema version `since` cannot work with the database."""
    if supported_since(connection) is not None:
        connection.execute(
            "UPDATE schema_support SET works_since = greatest(works_since, %s)", [since]
        )


def _check_alone(connection: psycopg.Connection, version: int) -> None:
    """Raises IncompatibleServers while a server is connected."""
    is_known = supported_since(connection) is not None
    deadline = time.monotonic() + ENDING_SECONDS
    while not _is_alone(connection, is_known=is_known):
        if time.monotonic() >= deadline:
            named = _named(connection, is_known=is_known)
            raise IncompatibleServers(
                f"servers that know the database up to schema version {version} are using it, and "
                f"cannot work with what this version makes of it{named}",
                hint="stop all of them, then start this one; nothing was changed",
            )
        time.sleep(_PAUSE_SECONDS)


def _is_alone(connection: psycopg.Connection, *, is_known: bool) -> bool:
    row = connection.execute(_TAKE_SCHEMA).fetchone()
    if not (row and row[0]):
        return False
    if is_known:
        return True
    connection.execute("SELECT pg_stat_clear_snapshot()")
    return connection.execute(_OLD_CONNECTIONS).fetchone() == (0,)


def _named(connection: psycopg.Connection, *, is_known: bool) -> str:
    rows = connection.execute(_LAST_SEEN).fetchall() if is_known else []
    names = [
        f"{version} at {address} (on {host}: kill {pid})" for version, address, host, pid in rows
    ]
    return f": {', '.join(names)}" if names else ""
