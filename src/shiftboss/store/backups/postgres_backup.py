"""Backups of a PostgreSQL store: a zip file with the rows of each table as COPY writes them.

They need no program beside Shiftboss, and can be restored by other versions of PostgreSQL.
"""

from __future__ import annotations

import re
import time
import zipfile
import zlib
from hashlib import sha256
from pathlib import Path
from typing import Final

import psycopg
from psycopg.sql import SQL, Composed, Identifier
from pydantic import BaseModel, ValidationError

from shiftboss.errors import DatabaseInUse, StoreUnavailable
from shiftboss.store.backups.report import (
    COUNTED_TABLES,
    BackupReport,
    DatabaseHasContent,
    NotABackup,
    RestoreReport,
    new_epoch_floor,
    new_private_file,
    publish,
    time_stamp,
)
from shiftboss.store.postgres.connections import (
    MIGRATION_LOCK,
    connection_parameters,
    server_location,
)
from shiftboss.store.queries import (
    check_schema_version,
    load_migrations,
    load_queries,
    percent_style,
)

MAGIC: Final = b"PK\x03\x04"
_CONTENTS: Final = "backup.json"
_APPLICATION: Final = "shiftboss-backup"
_CREATED_TABLE: Final = re.compile(r"^CREATE TABLE (\w+)", re.MULTILINE)
_CONTENTS_BYTES_MAX: Final = 1 << 20
_ENCRYPTED: Final = 1
_PIECE_BYTES: Final = 1 << 20
ENDING_SECONDS: Final = 1.0
_PAUSE_SECONDS: Final = 0.02


class TableCopy(BaseModel):
    name: str
    columns: list[str]
    rows: int
    sha256: str


class BackupContents(BaseModel):
    format: int = 1
    schema_version: int
    made_at_ms: int
    tables: list[TableCopy]


def back_up(url: str, file: Path, *, now_ms: int) -> BackupReport:
    """Write a backup of one moment, and verify it. Servers go on reading and writing meanwhile."""
    part = new_private_file(file)
    try:
        with _connected(url) as connection:
            connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            _write(connection, part, now_ms)
            connection.execute("COMMIT")
        report = verify(part)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    publish(part, file)
    return report._replace(file=str(file))


def _connected(url: str) -> psycopg.Connection:
    parameters = connection_parameters(url) | {"application_name": _APPLICATION}
    try:
        return psycopg.connect(**parameters, autocommit=True)
    except psycopg.Error as error:
        raise StoreUnavailable(
            f"cannot use PostgreSQL at {server_location(parameters)}: {error}",
            hint="is it running, and is --db right?",
        ) from error


def _write(connection: psycopg.Connection, part: Path, now_ms: int) -> None:
    with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        contents = BackupContents(
            schema_version=_schema_version(connection),
            made_at_ms=now_ms,
            tables=[_copy_out(connection, table, archive) for table in _own_tables(connection)],
        )
        archive.writestr(_CONTENTS, contents.model_dump_json())


def _schema_version(connection: psycopg.Connection) -> int:
    try:
        row = connection.execute("SELECT max(number) FROM migrations").fetchone()
    except psycopg.errors.UndefinedTable as error:
        raise StoreUnavailable(
            "the database has no tables of shiftboss", hint="choose another --db"
        ) from error
    return int(row[0]) if row and row[0] else 0


def _own_tables(connection: psycopg.Connection) -> list[str]:
    """Those that exist, in the order of their creation: rows that others refer to come first."""
    rows = connection.execute(
        "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()"
    ).fetchall()
    existing = {str(name) for (name,) in rows}
    created = [name for _, text in load_migrations("postgres") for name in _tables_in(text)]
    return [name for name in created if name in existing]


def _tables_in(migration: str) -> list[str]:
    return _CREATED_TABLE.findall(migration)


def _copy_out(connection: psycopg.Connection, table: str, archive: zipfile.ZipFile) -> TableCopy:
    columns = [
        str(name)
        for (name,) in connection.execute(
            "SELECT column_name FROM information_schema.columns WHERE table_schema = "
            "current_schema() AND table_name = %s ORDER BY ordinal_position",
            [table],
        )
    ]
    digest, rows = sha256(), 0
    statement = SQL("COPY {} ({}) TO STDOUT").format(Identifier(table), _names(columns))
    with connection.cursor().copy(statement) as copy, archive.open(f"{table}.copy", "w") as out:
        for data in copy:
            out.write(data)
            digest.update(data)
            rows += bytes(data).count(b"\n")
    return TableCopy(name=table, columns=columns, rows=rows, sha256=digest.hexdigest())


def _names(columns: list[str]) -> Composed:
    return SQL(", ").join(Identifier(name) for name in columns)


def verify(file: Path) -> BackupReport:
    """Every byte is read and compared with its digest. Raises NotABackup."""
    try:
        with zipfile.ZipFile(file) as archive:
            _check_members(file, archive)
            contents = _contents(archive)
            for table in contents.tables:
                _check_copy(archive, table)
    except (zipfile.BadZipFile, zlib.error, KeyError, ValidationError, OSError, EOFError) as error:
        raise NotABackup(
            f"{file} is not a backup of a PostgreSQL store: {error}", field="file"
        ) from error
    counts = {table.name: table.rows for table in contents.tables}
    rows = {name: counts.get(name, 0) for name in COUNTED_TABLES}
    return BackupReport(str(file), "postgres", contents.schema_version, file.stat().st_size, rows)


def _check_members(file: Path, archive: zipfile.ZipFile) -> None:
    """Others may write archives in ways that we do not: encrypted, or with a list of contents that
    fills the memory."""
    usual = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
    for member in archive.infolist():
        is_list = member.filename == _CONTENTS
        if (
            member.compress_type not in usual
            or member.flag_bits & _ENCRYPTED
            or (is_list and member.file_size > _CONTENTS_BYTES_MAX)
        ):
            raise NotABackup(
                f"{file} is not a backup of a PostgreSQL store: {member.filename} is not as "
                "shiftboss writes it",
                field="file",
            )


def _contents(archive: zipfile.ZipFile) -> BackupContents:
    return BackupContents.model_validate_json(archive.read(_CONTENTS))


def _check_copy(archive: zipfile.ZipFile, table: TableCopy) -> None:
    digest, rows = sha256(), 0
    with archive.open(f"{table.name}.copy") as copy:
        while data := copy.read(_PIECE_BYTES):
            digest.update(data)
            rows += data.count(b"\n")
    if (digest.hexdigest(), rows) != (table.sha256, table.rows):
        raise NotABackup(f"the rows of {table.name} are damaged", field="file")


def restore(url: str, file: Path, *, force: bool, now_ms: int) -> RestoreReport:
    """Replace the tables, all or nothing. The former ones are kept in a schema of their own."""
    report = verify(file)
    check_schema_version(report.schema_version, load_migrations("postgres"))
    with _connected(url) as connection, zipfile.ZipFile(file) as archive:
        with connection.transaction():
            # A server that starts now waits for its migrations until this is done.
            connection.execute("SELECT pg_advisory_xact_lock(%s)", [MIGRATION_LOCK])
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
    connection.execute("SELECT pg_stat_clear_snapshot()")
    row = connection.execute(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
        "AND application_name = 'shiftboss' AND pid <> pg_backend_pid()"
    ).fetchone()
    return int(row[0]) if row else 0


def _move_aside(connection: psycopg.Connection, *, force: bool, now_ms: int) -> str | None:
    """The schema of the former tables."""
    tables = _own_tables(connection)
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
        return _fill(connection, archive, _contents(archive))
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
    return version


def _copy_in(
    connection: psycopg.Connection, archive: zipfile.ZipFile, contents: BackupContents
) -> None:
    # A crafted backup could name tables of others, which are emptied first.
    if [table.name for table in contents.tables] != _own_tables(connection):
        raise NotABackup(
            f"the backup does not have the tables of schema version {contents.schema_version}; "
            "nothing was changed",
            field="file",
        )
    # Migrations add rows of their own.
    for table in reversed(contents.tables):
        connection.execute(SQL("DELETE FROM {}").format(Identifier(table.name)))
    for table in contents.tables:
        # A migration may have added rows, which the backup has, too.
        connection.execute(SQL("DELETE FROM {}").format(Identifier(table.name)))
        statement = SQL("COPY {} ({}) FROM STDIN").format(
            Identifier(table.name), _names(table.columns)
        )
        with (
            connection.cursor().copy(statement) as copy,
            archive.open(f"{table.name}.copy") as rows,
        ):
            while data := rows.read(_PIECE_BYTES):
                copy.write(data)


def _note_restore(connection: psycopg.Connection, name: str, now_ms: int) -> int:
    queries = load_queries("postgres")
    row = connection.execute(queries["highest_epoch"].encode()).fetchone()
    floor = new_epoch_floor(now_ms, row[0] if row else 0)
    connection.execute(
        percent_style(queries["add_restore"]).encode(),
        {"at_ms": now_ms, "backup": name, "epoch_floor": floor},
    )
    return floor
