"""Reading a snapshot of a SQLite database, without a server."""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from shiftboss.errors import StoreDamaged, StoreUnavailable
from shiftboss.store.port import Transaction
from shiftboss.store.queries import load_migrations
from shiftboss.store.snapshot_reading import SnapshotReading, check_version
from shiftboss.store.sqlite.damage import DamageWatch
from shiftboss.store.sqlite.session import SqliteSession
from shiftboss.store.transaction import SqlTransaction

T = TypeVar("T")

DAMAGE_LISTED_MAX: Final = 100


def read_sqlite_snapshot(path: Path, work: Callable[[Transaction], T]) -> SnapshotReading[T]:
    if not path.is_file():
        raise StoreUnavailable(f"there is no database {path}", hint="give it with --db")
    is_in_use = _is_locked(path)
    lost = None if is_in_use else _lost_writes(path)
    try:
        session = SqliteSession(path, read_only=True)
    except sqlite3.OperationalError as error:
        raise StoreUnavailable(f"cannot open {path}: {error}") from error
    except sqlite3.DatabaseError as error:
        return SnapshotReading(None, [str(error)], is_in_use)
    try:
        damage = [*([lost] if lost else []), *session.damage(DAMAGE_LISTED_MAX)]
        check_version(session.schema_version, load_migrations("sqlite")[-1][0], str(path))
        with session.snapshot():
            return SnapshotReading(work(SqlTransaction(session)), damage, is_in_use)
    except sqlite3.Error as error:
        # Rows that cannot be read are damage as well.
        return SnapshotReading(None, [str(error)], is_in_use)
    finally:
        session.close()


def _lost_writes(path: Path) -> str | None:
    """Asked before the file is opened: opening it lets SQLite cut off what it cannot read."""
    try:
        DamageWatch(path).check_closed_file()
    except StoreDamaged as error:
        return error.detail
    return None


def _is_locked(path: Path) -> bool:
    """Whether a server has the lock of the file, which it holds as long as it runs."""
    try:
        lock = os.open(f"{path.resolve()}.lock", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(lock)
    return False
