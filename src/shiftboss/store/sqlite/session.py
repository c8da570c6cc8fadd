"""A SQLite connection that runs the named queries."""

from __future__ import annotations

import logging
import os
import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import chain
from pathlib import Path

from shiftboss.errors import OutcomeUnknown, SchemaMismatch, StoreUnavailable
from shiftboss.store.batches import nothing_changed
from shiftboss.store.queries import (
    PositionalQuery,
    check_schema_version,
    load_migrations,
    load_queries,
    positional,
    schema_mismatch,
    works_since,
)
from shiftboss.store.row_cache import CachedTransaction, RowCache
from shiftboss.store.sqlite.damage import DamageWatch, check_open_file, error_code
from shiftboss.store.sqlite.log_size import LogSize
from shiftboss.store.transaction import SqlTransaction
from shiftboss.store.transaction_part import (
    NO_PARKED_POLLS,
    Parameters,
    ParkedPolls,
    Prefetch,
    Row,
)

logger = logging.getLogger(__name__)

# Overwriting the log is a third faster than extending it.
WAL_BYTES_READY = 16 * 1024 * 1024
# Pages in the write-ahead log before a checkpoint: a larger number means fewer interruptions.
WAL_PAGES_MAX = 4000
WAL_BYTES_KEPT = 32 << 20
CACHE_KIBIBYTES = 16_000
BUSY_TIMEOUT_SECONDS = 10
EVENTS_PER_STATEMENT = 16
# The quick check of a file of 100 MB takes about this long.
CHECK_SECONDS = 1.0
_EVENTS = re.compile(r"\bevents\b")
# SQLite has no code of its own for this.
_MISSING = re.compile(r"no such (?:table|column)|table \S+ has no column")
# A COMMIT that fails with one of these has not written its last frame: no crash brings it back.
_NOT_COMMITTED_CODES = frozenset(
    {
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR_WRITE,
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_CONSTRAINT,
        sqlite3.SQLITE_READONLY,
    }
)


@cache
def named_queries() -> dict[str, PositionalQuery]:
    return {name: positional(text) for name, text in load_queries("sqlite").items()}


@cache
def _queries_about_events() -> frozenset[str]:
    return frozenset(name for name, query in named_queries().items() if _EVENTS.search(query.text))


def _support_of(migrations: Sequence[tuple[int, str]], number: int) -> str:
    """The statement that older programs read, once there is a table for it."""
    known = [each for each in migrations if each[0] <= number]
    if not any("CREATE TABLE schema_support" in text for _, text in known):
        return ""
    raised = works_since(known)
    return f"UPDATE schema_support SET works_since = max(works_since, {raised});\n"  # noqa: S608


class SqliteSession:
    """One connection, used by one thread at a time.

    `row_cache` is for the only session that writes to the file. `watch` is told of damage. After
    `is_broken`, the session must not be used again. `connection` is an open database in place of a
    file: the simulator has one in memory.
    """

    driver_error: type[Exception] = sqlite3.Error

    def __init__(
        self,
        path: Path,
        *,
        read_only: bool = False,
        row_cache: RowCache | None = None,
        polls: ParkedPolls = NO_PARKED_POLLS,
        watch: DamageWatch | None = None,
        connection: sqlite3.Connection | None = None,
    ) -> None:
        self._watch = watch or DamageWatch(path)
        self.epoch_floor = 0
        self.is_broken = False
        self._is_committing = False
        self._connection = connection or _connect(path, read_only=read_only)
        self._queries = named_queries()
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
        # A page that cannot be right is reported when it is read.
        execute("PRAGMA cell_size_check = ON")
        execute(f"PRAGMA cache_size = -{CACHE_KIBIBYTES}")
        if not read_only:
            execute("PRAGMA journal_mode = WAL")
            # FULL: a commit is on disk before it is answered.
            execute("PRAGMA synchronous = FULL")
            execute(f"PRAGMA wal_autocheckpoint = {WAL_PAGES_MAX}")
            # A long reader makes the log grow; it is cut when it starts over.
            execute(f"PRAGMA journal_size_limit = {WAL_BYTES_KEPT}")

    @property
    def schema_version(self) -> int:
        (version,) = self._connection.execute("PRAGMA user_version").fetchone()
        return int(version)

    def migrate(self) -> None:
        """Bring the schema up to date, each migration in a transaction of its own."""
        version = self.schema_version
        migrations = load_migrations("sqlite")
        check_schema_version(version, migrations, self._supported_since())
        for number, text in migrations:
            if number > version:
                self._connection.executescript(
                    f"BEGIN IMMEDIATE;\n{text}\nPRAGMA user_version = {number};\n"
                    f"{_support_of(migrations, number)}COMMIT;"
                )

    def _supported_since(self) -> int | None:
        """None: the file is older than this rule."""
        listed = "SELECT count(*) FROM sqlite_schema WHERE name = 'schema_support'"
        if self._connection.execute(listed).fetchone() == (0,):
            return None
        row = self._connection.execute("SELECT works_since FROM schema_support").fetchone()
        return None if row is None else int(row[0])

    def read_epoch_floor(self) -> None:
        """It changes only while no server is running."""
        row = self.fetch_one("epoch_floor", {})
        self.epoch_floor = row[0] if row else 0

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

    def prefetch(self, use: Prefetch, parameters: Parameters) -> None:
        """A read of a file costs no round trip."""

    def execute(self, query: str, parameters: Parameters) -> int:
        if query == "add_event" and self._collects_events:
            self._events.append(self._queries[query].in_order(parameters))
            return 1
        return self._execute(query, parameters).rowcount

    # Nothing is saved by sending it later.
    write = execute

    def write_one(self, query: str, parameters: Parameters) -> bool:
        return self._execute(query, parameters).rowcount == 1

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

    def announce_settings(self) -> None:
        """There are no other servers."""

    def begin(self) -> None:
        self._collects_events = True
        self._connection.execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        if self._events:
            self._add_events()
        self._is_committing = True
        self._connection.execute("COMMIT")
        self._is_committing = False

    def refusal(self, error: Exception) -> StoreUnavailable:
        damage = self._watch.damage_of(error)
        if damage is not None:
            return damage
        code = error_code(error)
        if not self._is_committing or {code, code & 0xFF} & _NOT_COMMITTED_CODES:
            return mismatch_of(error) or nothing_changed(error)
        # The frames of the commit may be in the log, and a crash would bring them back.
        self.is_broken = True
        reason = str(error) or type(error).__name__
        unknown = OutcomeUnknown(f"the commit failed ({reason}) and may or may not last")
        unknown.__cause__ = error
        return unknown

    def rollback(self) -> None:
        self._is_committing = False
        self.forget()
        self._events.clear()
        try:
            # On a full disk SQLite rolls back by itself.
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except sqlite3.Error as error:
            logger.warning("a rollback failed, and the database is opened again: %s", error)
            self.is_broken = True

    def probe(self) -> None:
        """A commit that has to reach the disk, and changes nothing."""
        version = self.schema_version
        self.begin()
        self._connection.execute(f"PRAGMA user_version = {version}")
        self.commit()

    def limit_log(self, log_size: LogSize) -> None:
        log_size.limit(self._connection)

    def check(self) -> None:
        """Raises StoreDamaged if a part of the file that can be checked quickly is damaged."""
        damage = check_open_file(self._connection, CHECK_SECONDS)
        if damage is not None:
            raise self._watch.found(damage)

    def savepoint(self) -> None:
        # Insert each event at once, so that an error belongs to its own use case.
        self._collects_events = False
        self._connection.execute("SAVEPOINT use_case")

    def rollback_to_savepoint(self) -> None:
        self._connection.execute("ROLLBACK TO use_case")

    def damage(self, limit: int) -> list[str]:
        """What SQLite itself finds wrong: pages, indexes, references to rows that are not there.
        Reads the whole file."""
        problems = [
            str(row[0])
            for row in self._connection.execute(f"PRAGMA integrity_check({limit})")
            if row[0] != "ok"
        ]
        dangling = self._connection.execute("PRAGMA foreign_key_check").fetchmany(limit)
        return problems + [
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
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={'ro' if read_only else 'rw'}",
        uri=True,
        isolation_level=None,
        check_same_thread=False,
        timeout=BUSY_TIMEOUT_SECONDS,
        cached_statements=256,
    )


def create_privately(path: Path) -> None:
    """Create a new database with access for its owner only, because it contains the output of
    commands. SQLite gives the same mode to its other files. An existing file keeps its mode.

    Call this before a connection is open: closing the file here would drop the locks of SQLite."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise sqlite3.OperationalError(f"unable to open database file: {error.strerror}") from error


def mismatch_of(error: Exception) -> SchemaMismatch | None:
    """Our queries are fixed, so a table or column that is missing is the fault of the schema."""
    return schema_mismatch(error) if _MISSING.match(str(error)) else None
