"""Keeps the write-ahead log short, however many readers there are.

SQLite copies the log into the file by itself, but starts it over only at a moment at which no
reader uses it. With readers that take turns there may be none, and the log would grow for ever. So
above a limit the writer waits for a moment. What was copied is read from the file, so that new
readers do not use the log, and those that use it end: the snapshot of a request lasts for
milliseconds.

A snapshot that is held for minutes (a backup, a shell) prevents that. It is waited for again and
again, for a small share of the time, and `/health` says how large the log has become.
"""

from __future__ import annotations

import logging
import sqlite3
import time
from pathlib import Path
from typing import Final

from shiftboss.store.monitoring.measures import StoreMeasures

log = logging.getLogger(__name__)

# Four times what the log has before SQLite copies it.
LOG_BYTES_MAX: Final = 64 * 2**20
CHECK_SECONDS: Final = 0.25
# How long writes wait for the readers, and how long they do not after that was in vain.
WAIT_MS: Final = 50
PAUSE_SECONDS: Final = 2.0


class LogSize:
    """Of one database file. Used by the thread that writes; what it finds is in the measures."""

    def __init__(self, path: Path, measures: StoreMeasures) -> None:
        self._log = Path(f"{path}-wal")
        self._measures = measures
        self._next_check = 0.0

    def limit(self, connection: sqlite3.Connection) -> None:
        """Call it between two transactions."""
        if time.monotonic() < self._next_check:
            return
        size = _size_of(self._log)
        is_held = size > LOG_BYTES_MAX and not _start_over(connection)
        self._next_check = time.monotonic() + (PAUSE_SECONDS if is_held else CHECK_SECONDS)
        if is_held and not self._measures.log_bytes_held:
            log.warning("a reader keeps %s from being cut back: it has %d bytes", self._log, size)
        self._measures.log_bytes_held = size if is_held else 0


def _size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0  # the watch over the files tells what has become of them


def _start_over(connection: sqlite3.Connection) -> bool:
    """Copy the log and empty it. False: a reader uses it."""
    (timeout_ms,) = connection.execute("PRAGMA busy_timeout").fetchone()
    connection.execute(f"PRAGMA busy_timeout = {WAIT_MS}")
    try:
        (is_busy, *_) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    finally:
        connection.execute(f"PRAGMA busy_timeout = {timeout_ms}")
    return not is_busy
