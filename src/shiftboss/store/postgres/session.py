"""A PostgreSQL connection that runs the named queries and announces its commits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import cast

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.pq.abc import PGresult

from shiftboss.errors import OutcomeUnknown, SchemaMismatch, StoreUnavailable
from shiftboss.store.batches import nothing_changed
from shiftboss.store.postgres.hung_database import BoundedConnection
from shiftboss.store.postgres.merged_writes import MergedWrites
from shiftboss.store.postgres.notifications import event_payloads, settings_payload
from shiftboss.store.postgres.pipeline import Pipeline, Statement
from shiftboss.store.postgres.prefetch import PrefetchedRows, ReadAhead
from shiftboss.store.queries import load_queries, percent_style, schema_mismatch
from shiftboss.store.transaction import SqlTransaction
from shiftboss.store.transaction_part import (
    NO_PARKED_POLLS,
    Parameters,
    ParkedPolls,
    Prefetch,
    Row,
)

_NEXT_LOCK_SECONDS = 0.1
_LOCKING_QUERIES = frozenset(
    {"take_swarm", "take_assignment", "take_reported", "take_task", "take_worker"}
)


@cache
def named_queries() -> dict[str, bytes]:
    """For psycopg's cursors."""
    return {name: percent_style(text).encode() for name, text in load_queries("postgres").items()}


@cache
def statements() -> dict[str, Statement]:
    return {name: Statement(name, text) for name, text in load_queries("postgres").items()}


@cache
def _guarded(query: str) -> Statement:
    """Fails if it does not change exactly one row."""
    text = load_queries("postgres")[query]
    return Statement(
        f"guarded {query}",
        f"WITH changed AS ({text} RETURNING 1) SELECT 1 / count(*) FROM changed",  # noqa: S608
    )


@cache
def _holding(query: str) -> Statement:
    """A query that reads what it needs of a swarm, with the last event id as its last column."""
    texts = load_queries("postgres")
    return Statement(
        f"holding {query}",
        f"SELECT taken.*, ({texts['last_event_id']}) FROM ({texts[query]}) AS taken",  # noqa: S608
    )


@cache
def _command(text: str) -> Statement:
    return Statement(text, text)


class LockedElsewhereError(Exception):
    """An earlier use case has waited for the same lock in vain. Nothing was changed."""


class PostgresSession:
    """One connection for one batch or one read, used by one thread.

    The connection is in autocommit mode; statements open and end transactions.

    What nobody waits for is sent with the next statement whose answer is needed, at the latest with
    the COMMIT: the writes of a batch cost one round trip, and several of them may become one
    statement (`merged_writes.py`). A write that fails is noticed only then, so the batch is run
    again with savepoints, where every statement is sent at once.
    """

    driver_error: type[Exception] = psycopg.Error

    def __init__(
        self,
        connection: BoundedConnection,
        node: str,
        channel: str,
        polls: ParkedPolls = NO_PARKED_POLLS,
        epoch_floor: int = 0,
    ) -> None:
        """`node` announces its commits on `channel`."""
        self.epoch_floor = epoch_floor
        self._connection = connection
        self.pipeline = Pipeline(connection)
        self._statements = statements()
        self._ahead = PrefetchedRows(self._statements)
        self._merged = MergedWrites(self.pipeline, self._statements)
        self._node = node
        self._channel = channel
        self._polls = polls
        # Valid within one transaction, which holds its swarms.
        self._event_ids: dict[str, int] = {}
        self._held: set[object] = set()
        # Swarms that somebody else has locked. One use case has waited for it, not every one.
        self._locked: set[object] = set()
        self._added: list[tuple[str, int]] = []
        self._added_before = 0
        # Whether writes may wait for the next statement.
        self._sends_later = False
        self._in_savepoint = False
        # How long its transactions wait for locks; None: as long as the connection usually does.
        self.lock_seconds: float | None = None
        # A COMMIT was sent and no answer came back: it may or may not have been done.
        self.commit_in_doubt = False
        self._committed = False

    @property
    def lost_before_commit(self) -> bool:
        """Whether the connection broke before a COMMIT was sent: nothing was done."""
        return self._connection.closed and not (self.commit_in_doubt or self._committed)

    def refusal(self, error: Exception) -> StoreUnavailable:
        if not self.commit_in_doubt:
            return mismatch_of(error) or nothing_changed(error)
        unknown = OutcomeUnknown(
            "the connection was lost during the commit, which may or may not have been done"
        )
        unknown.__cause__ = error
        return unknown

    def fetch_one(self, query: str, parameters: Parameters) -> Row | None:
        if query in _LOCKING_QUERIES and parameters["swarm_id"] not in self._held:
            rows = self._hold(query, parameters)
        elif query == "next_queue_number":
            return (self._next_queue_number(parameters),)
        else:
            rows = self._fetch(query, parameters)
        return rows[0] if rows else None

    def fetch_all(self, query: str, parameters: Parameters) -> list[Row]:
        return self._fetch(query, parameters)

    def prefetch(self, use: Prefetch, parameters: Parameters) -> None:
        if self._sends_later:
            self._ahead.prefetch(use, parameters)

    def execute(self, query: str, parameters: Parameters) -> int:
        self._ahead.note_write(query, parameters)
        self.pipeline.add(self._statements[query], parameters)
        return self.pipeline.flush()[-1].command_tuples or 0

    def write(self, query: str, parameters: Parameters) -> None:
        if query == "add_event":
            event = cast("tuple[str, int]", (parameters["swarm_id"], parameters["event_id"]))
            self._added.append(event)
        self._ahead.note_write(query, parameters)
        if self._sends_later:
            self._ahead.remember(query, parameters)
            self._merged.write(query, parameters)
        else:
            self.pipeline.add(self._statements[query], parameters)
            self.pipeline.flush()

    def write_one(self, query: str, parameters: Parameters) -> bool:
        """If it turns out that no row was changed, the use cases are run again, without haste."""
        if not self._sends_later:
            return self.execute(query, parameters) == 1
        self._ahead.note_write(query, parameters)
        self._ahead.remember(query, parameters)
        self._merged.pass_by(query)
        self.pipeline.add(_guarded(query), parameters)
        return True

    def transaction(self) -> SqlTransaction:
        return SqlTransaction(self, self._event_ids, self._polls)

    def forget(self) -> None:
        self._event_ids.clear()

    def begin(self) -> None:
        self.forget()
        self._ahead.clear()
        self._merged.clear()
        self._held.clear()
        self._added.clear()
        self._in_savepoint = False
        self._sends_later = True
        # After waiting for another server's lock, the next statement must see its commit.
        self._add("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE")
        # One swarm was locked; if others are, too, the batch waits for them only briefly.
        lock_seconds = _NEXT_LOCK_SECONDS if self._locked else self.lock_seconds
        if lock_seconds is not None:
            parameters = {"milliseconds": str(round(lock_seconds * 1000))}
            self.pipeline.add(self._statements["limit_lock_wait"], parameters)

    def announce_settings(self) -> None:
        """PostgreSQL notifies the other servers at the commit, or not at all after a rollback."""
        payload = settings_payload(self._node)
        self.write("announce", {"channel": self._channel, "payload": payload})

    def commit(self) -> None:
        announce = self._statements["announce"]
        for payload in event_payloads(self._node, self._added):
            self.pipeline.add(announce, {"channel": self._channel, "payload": payload})
        commit = self._add("COMMIT")
        self.commit_in_doubt = True
        try:
            result = self.pipeline.flush()[commit]
        except psycopg.Error as error:
            # Nothing was done if PostgreSQL says that a statement before the COMMIT has failed, or
            # if it reports an error of the COMMIT itself, which ends the transaction.
            failed = self.pipeline.failed
            was_skipped = failed is not None and failed < commit and error.sqlstate is not None
            is_ended = self._connection.pgconn.transaction_status == TransactionStatus.IDLE
            self.commit_in_doubt = not (was_skipped or is_ended)
            raise
        self.commit_in_doubt = False
        # PostgreSQL answers the COMMIT of a failed transaction with a rollback, not an error.
        if result.command_status != b"COMMIT":
            raise psycopg.errors.InFailedSqlTransaction("a statement had failed before the commit")
        self._committed = True

    def probe(self) -> None:
        """A commit that has to reach the disk, and changes nothing."""
        self._add("BEGIN")
        self._add("SELECT pg_current_xact_id()")
        self._add("COMMIT")
        self.pipeline.flush()

    def rollback(self) -> None:
        self.pipeline.drop()
        if self._connection.pgconn.transaction_status == TransactionStatus.IDLE:
            return
        try:
            self._add("ROLLBACK")
            self.pipeline.flush()
        except psycopg.Error:
            # A lost connection is rolled back; the pool discards it.
            self._connection.close()

    def savepoint(self) -> None:
        if self._in_savepoint:
            self._add("RELEASE SAVEPOINT use_case")
        self._add("SAVEPOINT use_case")
        self._in_savepoint = True
        self._sends_later = False
        self._ahead.clear()
        self._added_before = len(self._added)

    def rollback_to_savepoint(self) -> None:
        self._add("ROLLBACK TO SAVEPOINT use_case")
        self.pipeline.flush()
        # The row locks since the savepoint are released, too.
        self._held.clear()
        del self._added[self._added_before :]

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """All reads inside see one state of the database."""
        self._add("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        try:
            yield
        finally:
            self._add("ROLLBACK")
            self.pipeline.flush()

    def _hold(self, query: str, parameters: Parameters) -> list[Row]:
        """Lock the swarm until the end of the transaction, and read; no rows if it does not exist.

        One round trip: the reads have snapshots from after the wait for the lock."""
        swarm_id = cast("str", parameters["swarm_id"])
        if swarm_id in self._locked:
            raise LockedElsewhereError
        of_swarm = {"swarm_id": swarm_id}
        hold = self.pipeline.add(self._statements["hold_swarm"], of_swarm)
        self.pipeline.add(_holding(query), parameters)
        ahead = self._ahead.send(self.pipeline, query, parameters)
        try:
            held, found, *prefetched = self.pipeline.flush()[hold:]
        except psycopg.errors.LockNotAvailable:
            if self.pipeline.failed == hold:
                self._locked.add(swarm_id)
            raise
        rows = self.pipeline.rows(found)
        if held.ntuples:
            self._held.add(swarm_id)
            self._event_ids[swarm_id] = rows[0][-1] or 0
            self._keep(ahead, prefetched)
        return [row[:-1] for row in rows]

    def _fetch(self, query: str, parameters: Parameters) -> list[Row]:
        known = self._ahead.known(query, parameters)
        if known is not None:
            return known
        if self._statements[query].changes:
            self._ahead.note_write(query, parameters)
        number = self.pipeline.add(self._statements[query], parameters)
        ahead = self._ahead.send(self.pipeline, query, parameters)
        result, *prefetched = self.pipeline.flush()[number:]
        self._keep(ahead, prefetched)
        return self.pipeline.rows(result)

    def _next_queue_number(self, parameters: Parameters) -> int:
        rows = self._fetch("last_queue_number", parameters)
        number = int(rows[0][0]) + 1 if rows else 1
        self.write("put_queue_number", {**parameters, "last_number": number})
        return number

    def _keep(self, ahead: list[ReadAhead], results: list[PGresult]) -> None:
        for key, result in zip(ahead, results, strict=True):
            self._ahead.keep(key, self.pipeline.rows(result))

    def _add(self, text: str) -> int:
        return self.pipeline.add(_command(text), {})


def mismatch_of(error: Exception) -> SchemaMismatch | None:
    """Our queries are fixed, so a table or column that is missing is the fault of the schema."""
    is_missing = isinstance(error, psycopg.errors.UndefinedTable | psycopg.errors.UndefinedColumn)
    return schema_mismatch(error) if is_missing else None
