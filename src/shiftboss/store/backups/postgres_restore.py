"""Restoring a backup of a PostgreSQL store."""

from __future__ import annotations

import time
import zipfile
from pathlib import Path
from typing import Final

import psycopg
from psycopg.sql import SQL, Identifier

from shiftboss.errors import DatabaseInUse
from shiftboss.store.backups.postgres_backup import (
    PIECE_BYTES,
    BackupContents,
    column_names,
    connected,
    own_tables,
    read_contents,
    verify,
)
from shiftboss.store.backups.report import (
    DatabaseHasContent,
    NotABackup,
    RestoreReport,
    new_epoch_floor,
    time_stamp,
)
from shiftboss.store.postgres.schema import (
    ENDING_SECONDS,
    MIGRATION_LOCK,
    SERVER_CONNECTIONS,
    raise_support,
)
from shiftboss.store.postgres.schema_address import make_schema
from shiftboss.store.queries import (
    check_schema_version,
    load_migrations,
    load_queries,
    percent_style,
    works_since,
)

_PAUSE_SECONDS: Final = 0.02


def restore(url: str, file: Path, *, force: bool, now_ms: int) -> RestoreReport:
    """Replace the tables, all or nothing. The former ones are kept in a schema of their own."""
    report = verify(file)
    check_schema_version(report.schema_version, load_migrations("postgres"))
    with (
        connected(url) as connection,
        zipfile.ZipFile(file) as archive,
        connection.transaction(),
    ):
        # A server that starts now waits for its migrations until this is done.
        connection.execute("SELECT pg_advisory_xact_lock(%s)", [MIGRATION_LOCK])
        make_schema(connection)
        _check_unused(connection)
        kept = _move_aside(connection, force=force, now_ms=now_ms)
        version = _filled(connection, archive)
        floor = _note_restore(connection, file.name, now_ms)
        connection.execute("ANALYZE")
    return RestoreReport(str(file), "postgres", version, report.rows, kept, floor)


def _check_unused(connection: psycopg.Connection) -> None:
    """A server that has just ended leaves its connections for a moment."""
    deadline = time.monotonic() + ENDING_SECONDS
    while count := _server_connections(connection):
        if time.monotonic() > deadline:
            raise DatabaseInUse(
                f"servers are using the database ({count} connections); nothing was changed",
                hint="stop them first",
            )
        time.sleep(_PAUSE_SECONDS)


def _server_connections(connection: psycopg.Connection) -> int:
    """Of servers on this schema."""
    connection.execute("SELECT pg_stat_clear_snapshot()")
    leading = {"leading": _leading_pid(connection)}
    row = connection.execute(SERVER_CONNECTIONS.encode(), leading).fetchone()
    return int(row[0]) if row else 0


def _leading_pid(connection: psycopg.Connection) -> int | None:
    if connection.execute("SELECT to_regclass('leadership')").fetchone() == (None,):
        return None  # an older version, or an empty database
    row = connection.execute(
        "SELECT backend_pid FROM leadership "
        "WHERE expires_at_ms > (extract(epoch FROM clock_timestamp()) * 1000)::bigint"
    ).fetchone()
    return int(row[0]) if row else None


def _move_aside(connection: psycopg.Connection, *, force: bool, now_ms: int) -> str | None:
    """The schema of the former tables."""
    tables = own_tables(connection)
    if not tables:
        return None
    if _has_rows(connection) and not force:
        raise DatabaseHasContent(
            "the database has swarms or receipts; nothing was changed",
            hint="with --force its tables are replaced, and kept in another schema",
        )
    row = connection.execute("SELECT current_schema()").fetchone()
    schema = f"{str(row[0])[:40] if row else 'public'}_replaced_{time_stamp(now_ms).lower()}"
    connection.execute(SQL("CREATE SCHEMA {}").format(Identifier(schema)))
    for table in [*tables, "migrations"]:
        connection.execute(
            SQL("ALTER TABLE {} SET SCHEMA {}").format(Identifier(table), Identifier(schema))
        )
    return schema


def _has_rows(connection: psycopg.Connection) -> bool:
    row = connection.execute(
        "SELECT EXISTS (SELECT FROM swarms) OR EXISTS (SELECT FROM receipts)"
    ).fetchone()
    return bool(row and row[0])


def _filled(connection: psycopg.Connection, archive: zipfile.ZipFile) -> int:
    try:
        return _fill(connection, archive, read_contents(archive))
    except (psycopg.DataError, psycopg.IntegrityError, psycopg.ProgrammingError) as error:
        raise NotABackup(
            f"PostgreSQL refuses the rows of the backup: {error}; nothing was changed", field="file"
        ) from error


def _fill(
    connection: psycopg.Connection, archive: zipfile.ZipFile, contents: BackupContents
) -> int:
    """Make the schema that the backup has, copy the rows, then bring it up to date."""
    connection.execute("CREATE TABLE migrations (number integer PRIMARY KEY)")
    version = 0
    is_filled = False
    for number, text in load_migrations("postgres"):
        if number > contents.schema_version and not is_filled:
            _copy_in(connection, archive, contents)
            is_filled = True
        connection.execute(text.encode())
        connection.execute("INSERT INTO migrations (number) VALUES (%s)", [number])
        version = number
    if not is_filled:
        _copy_in(connection, archive, contents)
    raise_support(connection, works_since(load_migrations("postgres")))
    return version


def _copy_in(
    connection: psycopg.Connection, archive: zipfile.ZipFile, contents: BackupContents
) -> None:
    # A crafted backup could name tables of others, which are emptied first.
    if [table.name for table in contents.tables] != own_tables(connection):
        raise NotABackup(
            f"the backup does not have the tables of schema version {contents.schema_version}; "
            "nothing was changed",
            field="file",
        )
    # Migrations add rows of their own, which the backup has, too.
    for table in reversed(contents.tables):
        connection.execute(SQL("DELETE FROM {}").format(Identifier(table.name)))
    # The rows of every table are in the backup, also those that triggers have written.
    names = [Identifier(table.name) for table in contents.tables]
    for name in names:
        connection.execute(SQL("ALTER TABLE {} DISABLE TRIGGER USER").format(name))
    for table in contents.tables:
        statement = SQL("COPY {} ({}) FROM STDIN").format(
            Identifier(table.name), column_names(table.columns)
        )
        with (
            connection.cursor().copy(statement) as copy,
            archive.open(f"{table.name}.copy") as rows,
        ):
            while data := rows.read(PIECE_BYTES):
                copy.write(data)
    for name in names:
        connection.execute(SQL("ALTER TABLE {} ENABLE TRIGGER USER").format(name))


def _note_restore(connection: psycopg.Connection, name: str, now_ms: int) -> int:
    queries = load_queries("postgres")
    row = connection.execute(queries["highest_epoch"].encode()).fetchone()
    floor = new_epoch_floor(now_ms, row[0] if row else 0)
    connection.execute(
        percent_style(queries["add_restore"]).encode(),
        {"at_ms": now_ms, "backup": name, "epoch_floor": floor},
    )
    # No server runs. The servers of the backup would count as living, if it is seconds old.
    connection.execute("UPDATE servers SET stopped_at_ms = seen_at_ms WHERE stopped_at_ms IS NULL")
    return floor
