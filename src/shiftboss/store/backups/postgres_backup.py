"""Backups of a PostgreSQL store: a zip file with the rows of each table as COPY writes them.

They need no program beside Shiftboss, and can be restored by other versions of PostgreSQL.
"""

from __future__ import annotations

import re
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import IO, Final

import psycopg
from psycopg.sql import SQL, Composed, Identifier
from pydantic import BaseModel

from shiftboss.errors import StoreUnavailable
from shiftboss.store.backups.report import (
    COUNTED_TABLES,
    BackupReport,
    NotABackup,
    check_is_new,
    new_private_file,
)
from shiftboss.store.postgres.connections import (
    connection_parameters,
    server_location,
)
from shiftboss.store.queries import (
    load_migrations,
)

MAGIC: Final = b"PK\x03\x04"
_CONTENTS: Final = "backup.json"
_APPLICATION: Final = "shiftboss-backup"
_CREATED_TABLE: Final = re.compile(r"^CREATE TABLE (\w+)", re.MULTILINE)
PIECE_BYTES: Final = 1 << 20
_CONTENTS_BYTES_MAX: Final = 1 << 20
_ENCRYPTED: Final = 1
# What zipfile raises for a damaged archive, or one that needs what it does not support.
_UNREADABLE: Final = (
    zipfile.BadZipFile,
    zlib.error,
    KeyError,
    ValueError,
    OSError,
    EOFError,
    RuntimeError,
)


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
    check_is_new(file)
    with new_private_file(file) as part:
        with connected(url) as connection:
            connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            _write(connection, part, now_ms)
            connection.execute("COMMIT")
        report = verify(part)
    return report._replace(file=str(file))


@contextmanager
def connected(url: str) -> Iterator[psycopg.Connection]:
    """Any error of PostgreSQL becomes StoreUnavailable."""
    parameters = connection_parameters(url) | {"application_name": _APPLICATION}
    try:
        with psycopg.connect(**parameters, autocommit=True) as connection:
            yield connection
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
            tables=[_copy_out(connection, table, archive) for table in own_tables(connection)],
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


def own_tables(connection: psycopg.Connection) -> list[str]:
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
    statement = SQL("COPY {} ({}) TO STDOUT").format(Identifier(table), column_names(columns))
    with connection.cursor().copy(statement) as copy, _new_member(archive, table) as out:
        for data in copy:
            out.write(data)
            digest.update(data)
            rows += bytes(data).count(b"\n")
    return TableCopy(name=table, columns=columns, rows=rows, sha256=digest.hexdigest())


def _new_member(archive: zipfile.ZipFile, table: str) -> IO[bytes]:
    """Without zip64, a member ends at 2 GB."""
    return archive.open(f"{table}.copy", "w", force_zip64=True)


def column_names(columns: list[str]) -> Composed:
    return SQL(", ").join(Identifier(name) for name in columns)


def verify(file: Path) -> BackupReport:
    """Every byte is read and compared with its digest. Raises NotABackup."""
    try:
        with zipfile.ZipFile(file) as archive:
            _check_members(file, archive)
            contents = read_contents(archive)
            for table in contents.tables:
                _check_copy(archive, table)
    except _UNREADABLE as error:
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


def read_contents(archive: zipfile.ZipFile) -> BackupContents:
    return BackupContents.model_validate_json(archive.read(_CONTENTS))


def _check_copy(archive: zipfile.ZipFile, table: TableCopy) -> None:
    digest, rows = sha256(), 0
    with archive.open(f"{table.name}.copy") as copy:
        while data := copy.read(PIECE_BYTES):
            digest.update(data)
            rows += data.count(b"\n")
    if (digest.hexdigest(), rows) != (table.sha256, table.rows):
        raise NotABackup(f"the rows of {table.name} are damaged", field="file")
