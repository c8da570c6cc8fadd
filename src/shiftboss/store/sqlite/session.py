"""A SQLite connection that runs the named queries."""

from __future__ import annotations

import logging
import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from itertools import chain
from pathlib import Path

from shiftboss.store.queries import (
    PositionalQuery,
    check_schema_version,
    load_migrations,
    load_queries,
    positional,
)
from shiftboss.store.row_cache import CachedTransaction, RowCache
from shiftboss.store.transaction import SqlTransaction
from shiftboss.store.transaction_part import NO_PARKED_POLLS, Parameters, ParkedPolls, Row

logger = logging.getLogger(__name__)

# Overwriting the log is a third faster than extending it.
WAL_BYTES_READY = 16 * 1024 * 1024
# Pages in the write-ahead log before a checkpoint: a larger number means fewer interruptions.
WAL_PAGES_MAX = 4000
CACHE_KIBIBYTES = 16_000
BUSY_TIMEOUT_SECONDS = 10
EVENTS_PER_STATEMENT = 16
_EVENTS = re.compile(r"\bevents\b")


@cache
def _queries() -> dict[str, PositionalQuery]:
    return {name: positional(text) for name, text in load_queries("sqlite").items()}


@cache
def _queries_about_events() -> frozenset[str]:
    return frozenset(name for name, query in _queries().items() if _EVENTS.search(query.text))


class SqliteSession:
    """One connection, used by one thread at a time.

    `row_cache` is for the only session that writes to the file. `connection` is an open database
    in place of a file: the simulator has one in memory.
    """

    driver_error: type[Exception] = sqlite3.Error

    def __init__(
        self,
        path: Path,
        *,
        read_only: bool = False,
        row_cache: RowCache | None = None,
        polls: ParkedPolls = NO_PARKED_POLLS,
        connection: sqlite3.Connection | None = None,
    ) -> None:
        self._connection = connection or _connect(path, read_only=read_only)
        self._queries = _queries()
        self.row_cache = row_cache
        self._polls = polls
        # Only one session writes to the file, so these are valid until a rollback.
        self._event_ids: dict[str, int] = {}
        self._about_events = _queries_about_events()
        # Events that are inserted at the end of the transaction, or when a query needs them.
        self._events: list[tuple[object, ...]] = []
        self._collects_events = False
        execute = self._connection.execute
        execute("PRAGMA foreign_keys = ON")
        execute(f"PRAGMA cache_size = -{CACHE_KIBIBYTES}")
        if not read_only:
            execute("PRAGMA journal_mode = WAL")
            # FULL: a commit is on disk before it is answered.
            execute("PRAGMA synchronous = FULL")
            execute(f"PRAGMA wal_autocheckpoint = {WAL_PAGES_MAX}")

    @property
    def schema_version(self) -> int:
        (version,) = self._connection.execute("PRAGMA user_version").fetchone()
        return int(version)

    def migrate(self) -> None:
        """Bring the schema up to date, each migration in a transaction of its own."""
        version = self.schema_version
        migrations = load_migrations("sqlite")
        check_schema_version(version, migrations)
        for number, text in migrations:
            if number > version:
                self._connection.executescript(
                    f"BEGIN IMMEDIATE;\n{text}\nPRAGMA user_version = {number};\nCOMMIT;"
                )

    def prepare_log(self) -> None:
        """Extend the write-ahead log to its full length in advance.

        SQLite reads the log up to the first invalid frame and overwrites what follows, as it does
        with the rest of an earlier round. A full disk must not keep the server from starting.
        """
        (name,) = self._connection.execute(
            "SELECT file FROM pragma_database_list WHERE name = 'main'"
        ).fetchone()
        log = os.open(f"{name}-wal", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            length = os.fstat(log).st_size
            os.pwrite(log, bytes(max(WAL_BYTES_READY - length, 0)), length)
            os.fsync(log)
        except OSError as error:
            logger.info("the write-ahead log of %s could not be extended: %s", name, error)
        finally:
            os.close(log)

    def fetch_one(self, query: str, parameters: Parameters) -> Row | None:
        row: Row | None = self._execute(query, parameters).fetchone()
        return row

    def fetch_all(self, query: str, parameters: Parameters) -> list[Row]:
        return self._execute(query, parameters).fetchall()

    def execute(self, query: str, parameters: Parameters) -> int:
        if query == "add_event" and self._collects_events:
            self._events.append(self._queries[query].in_order(parameters))
            return 1
        return self._execute(query, parameters).rowcount

    def _execute(self, query: str, parameters: Parameters) -> sqlite3.Cursor:
        if self._events and query in self._about_events:
            self._add_events()
        text, in_order = self._queries[query]
        return self._connection.execute(text, in_order(parameters))

    def _add_events(self) -> None:
        """Insert the collected events, several per statement."""
        events, self._events = self._events, []
        head, _, values = self._queries["add_event"].text.partition("VALUES")
        for start in range(0, len(events), EVENTS_PER_STATEMENT):
            batch = events[start : start + EVENTS_PER_STATEMENT]
            text = f"{head}VALUES{','.join([values] * len(batch))}"
            self._connection.execute(text, tuple(chain.from_iterable(batch)))

    def transaction(self) -> SqlTransaction:
        if self.row_cache is None:
            return SqlTransaction(self, self._event_ids, self._polls)
        return CachedTransaction(self, self._event_ids, self._polls, self.row_cache)

    def forget(self) -> None:
        self._event_ids.clear()
        if self.row_cache is not None:
            self.row_cache.clear()

    def begin(self) -> None:
        self._collects_events = True
        self._connection.execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        if self._events:
            self._add_events()
        self._connection.execute("COMMIT")

    def rollback(self) -> None:
        self.forget()
        self._events.clear()
        # On a full disk SQLite rolls back by itself.
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def savepoint(self) -> None:
        # Insert each event at once, so that an error belongs to its own use case.
        self._collects_events = False
        self._connection.execute("SAVEPOINT use_case")

    def rollback_to_savepoint(self) -> None:
        self._connection.execute("ROLLBACK TO use_case")

    def damage(self, limit: int) -> list[str]:
        """What SQLite itself finds wrong: pages, indexes, references to rows that are not there.
        Reads the whole file."""
        found = [
            str(row[0])
            for row in self._connection.execute(f"PRAGMA integrity_check({limit})")
            if row[0] != "ok"
        ]
        dangling = self._connection.execute("PRAGMA foreign_key_check").fetchmany(limit)
        return found + [
            f"row {row_id} of {table} refers to a row of {parent} that is not there"
            for table, row_id, parent, _ in dangling
        ]

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """All reads inside see one state of the database."""
        self._connection.execute("BEGIN")
        try:
            yield
        finally:
            self._connection.execute("COMMIT")

    def close(self) -> None:
        self._connection.close()


def _connect(path: Path, *, read_only: bool) -> sqlite3.Connection:
    if not read_only:
        _make_private(path)
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={'ro' if read_only else 'rw'}",
        uri=True,
        isolation_level=None,
        check_same_thread=False,
        timeout=BUSY_TIMEOUT_SECONDS,
        cached_statements=256,
    )


def _make_private(path: Path) -> None:
    """Create a new database with access for its owner only, because it contains the output of
    commands. SQLite gives the same mode to its other files. An existing file keeps its mode."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise sqlite3.OperationalError(f"unable to open database file: {error.strerror}") from error
