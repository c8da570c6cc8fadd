"""Backing up and restoring the store that an address names."""

from __future__ import annotations

from pathlib import Path

from shiftboss.store.backups import sqlite_backup
from shiftboss.store.backups.report import BackupReport, NotABackup, RestoreReport
from shiftboss.store.open_store import is_postgres
from shiftboss.store.sqlite.damage import MAGIC


def back_up(address: str, file: Path, *, now_ms: int, damaged: bool = False) -> BackupReport:
    """Write a verified backup to a new file, for its owner only."""
    if is_postgres(address):
        from shiftboss.store.backups import postgres_backup

        return postgres_backup.back_up(address, file, now_ms=now_ms)
    return sqlite_backup.back_up(Path(address).resolve(), file, damaged=damaged)


def restore(address: str, file: Path, *, force: bool, now_ms: int) -> RestoreReport:
    """Replace the database by a backup. No server may be running on it."""
    if file.exists() and not file.is_file():
        raise NotABackup(f"{file} is not a file; nothing was changed", field="file")
    try:
        with file.open("rb") as opened:
            head = opened.read(16)
    except OSError as error:
        raise NotABackup(f"cannot read {file}: {error.strerror}", field="file") from error
    if is_postgres(address):
        from shiftboss.store.backups import postgres_backup, postgres_restore

        _check_kind(file, head, postgres_backup.MAGIC, "PostgreSQL")
        return postgres_restore.restore(address, file, force=force, now_ms=now_ms)
    _check_kind(file, head, MAGIC, "SQLite")
    return sqlite_backup.restore(Path(address).resolve(), file, force=force, now_ms=now_ms)


def _check_kind(file: Path, head: bytes, magic: bytes, store: str) -> None:
    if not head.startswith(magic):
        raise NotABackup(
            f"{file} is not a backup of a {store} store; nothing was changed",
            field="file",
            hint="a backup is restored to the kind of store that it was made of; is --db right?",
        )
