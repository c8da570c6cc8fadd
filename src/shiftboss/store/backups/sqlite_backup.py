"""Backups of a SQLite file. A backup is a SQLite file, too."""

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
    new_epoch_floor,
    new_private_file,
    publish,
    sync,
    time_stamp,
)
from shiftboss.store.backups.salvage import salvage
from shiftboss.store.queries import check_schema_version, load_migrations
from shiftboss.store.sqlite.damage import DamageWatch, means_damage, way_back
from shiftboss.store.sqlite.session import SqliteSession
from shiftboss.store.sqlite.store import lock_file
from shiftboss.system.file_locks import try_lock

_SUFFIXES: Final = ("", "-wal", "-shm")


def back_up(database: Path, file: Path, *, damaged: bool) -> BackupReport:
    """Write a backup that is verified. Servers go on reading and writing meanwhile.

    `damaged`: take what can be read of a database that is known to be damaged.
    """
    if not database.is_file():
        raise StoreUnavailable(f"there is no database {database}", hint="choose another --db")
    if not damaged:
        _check_intact(database)
    part = new_private_file(file)
    try:
        report = _copy_whole(database, part) if not damaged else _copy_rest(database, part)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    publish(part, file)
    return report._replace(file=str(file))


def _copy_whole(database: Path, part: Path) -> BackupReport:
    try:
        with _reading(database) as source:
            source.execute("VACUUM INTO ?", [str(part)])
    except sqlite3.Error as error:
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


def _damage(database: Path) -> str | None:
    try:
        with _reading(database) as source:
            (found,) = source.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.DatabaseError as error:
        return str(error) if means_damage(error) else None
    return None if found == "ok" else str(found)


def _check_intact(database: Path) -> None:
    """Raises StoreDamaged. A file that a server has open is checked by the server."""
    watch = DamageWatch(database)
    lock = try_lock(Path(f"{database}.lock"))
    if lock is None:
        watch.check_note()
        return
    try:
        watch.check_closed_file()
    finally:
        os.close(lock)


@contextmanager
def _reading(file: Path) -> Iterator[sqlite3.Connection]:
    address = f"{file.absolute().as_uri()}?mode=ro"
    with closing(sqlite3.connect(address, uri=True, isolation_level=None)) as connection:
        connection.execute("PRAGMA cell_size_check = ON")
        yield connection


def verify(file: Path) -> BackupReport:
    """Every page, index and reference of a backup is checked. Raises NotABackup."""
    try:
        with _reading(file) as connection:
            (found,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
            if found != "ok":
                raise NotABackup(f"{file} is damaged: {found}", field="file")
            if connection.execute("PRAGMA foreign_key_check").fetchone() is not None:
                raise NotABackup(f"{file} refers to rows that are missing", field="file")
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            rows = {
                table: connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]  # noqa: S608
                for table in COUNTED_TABLES
            }
    except sqlite3.Error as error:
        raise NotABackup(f"{file} is not a backup of a SQLite store: {error}", field="file") from (
            error
        )
    return BackupReport(str(file), "sqlite", version, file.stat().st_size, rows)


def restore(database: Path, file: Path, *, force: bool, now_ms: int) -> RestoreReport:
    """Replace the database file. It is kept under another name. Raises DatabaseInUse while a
    server runs."""
    report = verify(file)
    check_schema_version(report.schema_version, load_migrations("sqlite"))
    lock = lock_file(database)
    try:
        if database.is_file() and database.stat().st_size and not force:
            raise DatabaseHasContent(
                f"{database} exists; nothing was changed",
                hint="with --force it is replaced, and kept under another name",
            )
        part = database.with_name(f"{database.name}.part")
        part.unlink(missing_ok=True)
        os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        with _reading(file) as source:  # and its log: it may be the database of a killed server
            source.execute("VACUUM INTO ?", [str(part)])
        floor, version = _prepare(part, file.name, now_ms)
        kept = _move_aside(database, now_ms)
        publish(part, database)
        DamageWatch(database).note_file.unlink()
        sync(database.parent)
    finally:
        os.close(lock)
    return RestoreReport(str(file), "sqlite", version, report.rows, kept, floor)


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
        return floor, session.schema_version
    finally:
        session.close()  # empties and removes the log of the copy


def _move_aside(database: Path, now_ms: int) -> str | None:
    """The new name of the former database. Until the restored one is in place, a note keeps servers
    from starting without it."""
    kept = database.with_name(f"{database.name}.replaced-{time_stamp(now_ms)}")
    found = [suffix for suffix in _SUFFIXES if Path(f"{database}{suffix}").exists()]
    note = DamageWatch(database).note_file
    if note.exists():
        note.replace(f"{kept}.damaged")
    note.write_text("a restore was interrupted; run it again\n", encoding="utf-8")
    sync(note)
    sync(database.parent)
    for suffix in found:
        Path(f"{database}{suffix}").replace(f"{kept}{suffix}")
    return str(kept) if "" in found else None
