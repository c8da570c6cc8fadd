"""Backups of a SQLite file. A backup is a SQLite file, too.

It may come from anywhere, so its tables are compared with those of a store: a trigger in it would
change rows behind the rules, and a view in the place of a table can take forever to read.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from shiftboss.errors import StoreDamaged, StoreUnavailable
from shiftboss.store.backups.report import (
    COUNTED_TABLES,
    BackupReport,
    DatabaseHasContent,
    NotABackup,
    RestoreReport,
    check_is_new,
    new_epoch_floor,
    new_private_file,
    time_stamp,
)
from shiftboss.store.backups.salvage import salvage
from shiftboss.store.queries import check_schema_version, load_migrations
from shiftboss.store.sqlite.damage import DamageWatch, means_damage, way_back
from shiftboss.store.sqlite.session import SqliteSession
from shiftboss.store.sqlite.store import lock_file
from shiftboss.system.files import remove_durably, write_durably

_SUFFIXES: Final = ("", "-wal", "-shm")

# Tables and indexes by kind, name and table, triggers with their text; columns by table, name, type
# and whether computed.
_PARTS = """
SELECT type, name, tbl_name, CASE WHEN type = 'trigger' THEN sql ELSE '' END
FROM sqlite_schema WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\'
UNION ALL
SELECT s.name, c.name, c.type, c.hidden FROM sqlite_schema AS s, pragma_table_xinfo(s.name) AS c
WHERE s.type = 'table' AND s.sql LIKE 'CREATE TABLE%'
"""


def back_up(database: Path, file: Path, *, damaged: bool) -> BackupReport:
    """Write a backup that is verified. Servers go on reading and writing meanwhile.

    `damaged`: take what can be read of a database that is known to be damaged.
    """
    if not database.is_file():
        raise StoreUnavailable(f"there is no database {database}", hint="choose another --db")
    check_is_new(file)
    if not damaged:
        with DamageWatch(database).checked_unless_open():
            pass
    with new_private_file(file) as part:
        report = _copy_rest(database, part) if damaged else _copy_whole(database, part)
    return report._replace(file=str(file))


def _copy_whole(database: Path, part: Path) -> BackupReport:
    try:
        _copy(database, part)
    except (sqlite3.Error, UnicodeDecodeError) as error:
        reason = _damage(database)
        if reason is None:
            raise StoreUnavailable(f"{database} cannot be backed up: {error}") from error
        raise StoreDamaged(
            f"{database} cannot be backed up: {reason}", hint=way_back(database)
        ) from error
    return verify(part)


def _copy_rest(database: Path, part: Path) -> BackupReport:
    try:
        return _copy_whole(database, part)
    except (StoreDamaged, NotABackup):
        part.write_bytes(b"")
    with _reading(database) as source:
        incomplete = salvage(source, part)
    return verify(part)._replace(incomplete=incomplete)


def _copy(file: Path, part: Path) -> None:
    """With what is in its log: it may be the database of a server that was killed."""
    with _reading(file) as source:
        source.execute("VACUUM INTO ?", [str(part)])


def _damage(database: Path) -> str | None:
    try:
        with _reading(database) as source:
            (found,) = source.execute("PRAGMA quick_check(1)").fetchone()
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        return str(error) if means_damage(error) else None
    return None if found == "ok" else str(found)


@contextmanager
def _reading(file: Path) -> Iterator[sqlite3.Connection]:
    address = f"{file.absolute().as_uri()}?mode=ro"
    with closing(sqlite3.connect(address, uri=True, isolation_level=None)) as connection:
        connection.execute("PRAGMA cell_size_check = ON")
        connection.execute("PRAGMA trusted_schema = OFF")
        yield connection


def verify(file: Path) -> BackupReport:
    """Its schema, and every page, index and reference of a backup is checked. Raises NotABackup."""
    try:
        with _reading(file) as connection:
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            check_schema(file, connection, version)
            (found,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
            if found != "ok":
                raise NotABackup(f"{file} is damaged: {found}", field="file")
            if connection.execute("PRAGMA foreign_key_check").fetchone() is not None:
                raise NotABackup(f"{file} refers to rows that are missing", field="file")
            rows = {
                table: connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]  # noqa: S608
                for table in COUNTED_TABLES
            }
    except (sqlite3.Error, UnicodeDecodeError) as error:  # a message may quote the damaged bytes
        raise NotABackup(f"{file} is not a backup of a SQLite store: {error}", field="file") from (
            error
        )
    return BackupReport(str(file), "sqlite", version, file.stat().st_size, rows)


def restore(database: Path, file: Path, *, force: bool, now_ms: int) -> RestoreReport:
    """Replace the database file. It is kept under another name. Raises DatabaseInUse while a
    server runs."""
    report = verify(file)
    lock = lock_file(database)
    try:
        if database.is_file() and database.stat().st_size and not force:
            raise DatabaseHasContent(
                f"{database} exists; nothing was changed",
                hint="with --force it is replaced, and kept under another name",
            )
        with new_private_file(database) as part:
            _copy_backup(file, part)
            floor, version = _prepare(part, file.name, now_ms)
            kept = _move_aside(database, now_ms)
        remove_durably(DamageWatch(database).note_file)
    finally:
        os.close(lock)
    return RestoreReport(str(file), "sqlite", version, report.rows, kept, floor)


def _copy_backup(file: Path, part: Path) -> None:
    try:
        _copy(file, part)
    except sqlite3.Error as error:
        raise StoreUnavailable(f"{file} cannot be copied: {error}; nothing was changed") from error


def _prepare(part: Path, name: str, now_ms: int) -> tuple[int, int]:
    """Bring the copy up to date; its floor of epochs and its schema version."""
    session = SqliteSession(part)
    try:
        session.migrate()
        session.begin()
        highest = session.fetch_one("highest_epoch", {})
        floor = new_epoch_floor(now_ms, highest[0] if highest else 0)
        session.execute("add_restore", {"at_ms": now_ms, "backup": name, "epoch_floor": floor})
        session.commit()
        version = session.schema_version
    except sqlite3.Error as error:
        raise NotABackup(f"{name} cannot be brought up to date: {error}", field="file") from error
    finally:
        session.close()  # empties and removes the log of the copy
    return floor, version


def _move_aside(database: Path, now_ms: int) -> str | None:
    """The new name of the former database. Until the restored one is in place, a note keeps servers
    from starting without it."""
    kept = database.with_name(f"{database.name}.replaced-{time_stamp(now_ms)}")
    if kept.exists():
        raise DatabaseHasContent(f"{kept} exists; nothing was changed", hint="try again")
    suffixes = [suffix for suffix in _SUFFIXES if Path(f"{database}{suffix}").exists()]
    note = DamageWatch(database).note_file
    if note.exists():
        note.replace(f"{kept}.damaged")
    write_durably(note, b"a restore was interrupted; run it again\n")
    for suffix in suffixes:
        Path(f"{database}{suffix}").replace(f"{kept}{suffix}")
    return str(kept) if "" in suffixes else None


def check_schema(file: Path, connection: sqlite3.Connection, version: int) -> None:
    """Compare with what the migrations make. The text of tables is not compared: versions of SQLite
    write it differently. Raises NotABackup, and StoreUnavailable for a later version."""
    migrations = load_migrations("sqlite")
    check_schema_version(version, migrations)
    with closing(sqlite3.connect(":memory:")) as made:
        for number, text in migrations:
            if number <= version:
                made.executescript(text)
        expected = _parts(made)
    odd = sorted(_parts(connection) ^ expected)
    if odd:
        kind, name = odd[0][:2]
        raise NotABackup(
            f"{file} is not a backup of a SQLite store: its schema is not that of version "
            f"{version} ({kind} {name})",
            field="file",
        )


def _parts(connection: sqlite3.Connection) -> set[tuple[str, ...]]:
    return {tuple(map(str, row)) for row in connection.execute(_PARTS)}
