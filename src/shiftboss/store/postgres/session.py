"""A PostgreSQL connection that runs the named queries and announces its commits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import cast

import psycopg
from psycopg.pq import TransactionStatus

from shiftboss.errors import OutcomeUnknown, SchemaMismatch, StoreUnavailable
from shiftboss.store.batches import nothing_changed
from shiftboss.store.postgres.notifications import event_payloads, settings_payload
from shiftboss.store.queries import load_queries, percent_style, schema_mismatch
from shiftboss.store.transaction import SqlTransaction
from shiftboss.store.transaction_part import NO_PARKED_POLLS, Parameters, ParkedPolls, Row

_NEXT_LOCK_SECONDS = 0.1
_LOCKING_QUERIES = frozenset(
    {"take_swarm", "take_assignment", "take_reported", "take_task", "take_worker"}
)


@cache
def named_queries() -> dict[str, bytes]:
    return {name: percent_style(text).encode() for name, text in load_queries("postgres").items()}


class LockedElsewhereError(Exception):
    """An earlier use case has waited for the same lock in vain. Nothing was changed."""


class PostgresSession:
    """One connection for one batch or one read, used by one thread.

    The connection is in autocommit mode; statements open and end transactions.
    """

    driver_error: type[Exception] = psycopg.Error

    def __init__(
        self,
        connection: psycopg.Connection,
        node: str,
        channel: str,
        polls: ParkedPolls = NO_PARKED_POLLS,
        epoch_floor: int = 0,
    ) -> None:
        """`node` announces its commits on `channel`."""
        self.epoch_floor = epoch_floor
        self._connection = connection
        self._cursor = connection.cursor()
        self._queries = named_queries()
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
        if query in _LOCKING_QUERIES and not self._hold(parameters["swarm_id"]):
            return None
        return self._execute(query, parameters).fetchone()

    def fetch_all(self, query: str, parameters: Parameters) -> list[Row]:
        return list(self._execute(query, parameters).fetchall())

    def execute(self, query: str, parameters: Parameters) -> int:
        if query == "add_event":
            event = cast("tuple[str, int]", (parameters["swarm_id"], parameters["event_id"]))
            self._added.append(event)
        return self._execute(query, parameters).rowcount

    def transaction(self) -> SqlTransaction:
        return SqlTransaction(self, self._event_ids, self._polls)

    def forget(self) -> None:
        self._event_ids.clear()

    def begin(self) -> None:
        self.forget()
        self._held.clear()
        self._added.clear()
        self._in_savepoint = False
        # After waiting for another server's lock, the next statement must see its commit.
        self._cursor.execute("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE")
        # One swarm was locked; if others are, too, the batch waits for them only briefly.
        lock_seconds = _NEXT_LOCK_SECONDS if self._locked else self.lock_seconds
        if lock_seconds is not None:
            lock_ms = round(lock_seconds * 1000)
            self._cursor.execute(f"SET LOCAL lock_timeout = {lock_ms}".encode())

    def announce_settings(self) -> None:
        """PostgreSQL notifies the other servers at the commit, or not at all after a rollback."""
        payload = settings_payload(self._node)
        self._execute("announce", {"channel": self._channel, "payload": payload})

    def commit(self) -> None:
        for payload in event_payloads(self._node, self._added):
            self._execute("announce", {"channel": self._channel, "payload": payload})
        self.commit_in_doubt = True
        try:
            self._cursor.execute("COMMIT")
        finally:
            # An error that PostgreSQL itself reports ends the transaction: nothing was done.
            self.commit_in_doubt = (
                self._connection.pgconn.transaction_status != TransactionStatus.IDLE
            )
        # PostgreSQL answers the COMMIT of a failed transaction with a rollback, not an error.
        if self._cursor.statusmessage != "COMMIT":
            raise psycopg.errors.InFailedSqlTransaction("a statement had failed before the commit")
        self._committed = True

    def probe(self) -> None:
        """A commit that has to reach the disk, and changes nothing."""
        with self._connection.transaction():
            self._cursor.execute("SELECT pg_current_xact_id()")

    def rollback(self) -> None:
        if self._connection.pgconn.transaction_status == TransactionStatus.IDLE:
            return
        try:
            self._cursor.execute("ROLLBACK")
        except psycopg.Error:
            # A lost connection is rolled back; the pool discards it.
            self._connection.close()

    def savepoint(self) -> None:
        if self._in_savepoint:
            self._cursor.execute("RELEASE SAVEPOINT use_case")
        self._cursor.execute("SAVEPOINT use_case")
        self._in_savepoint = True
        self._added_before = len(self._added)

    def rollback_to_savepoint(self) -> None:
        self._cursor.execute("ROLLBACK TO SAVEPOINT use_case")
        # The row locks since the savepoint are released, too.
        self._held.clear()
        del self._added[self._added_before :]

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """All reads inside see one state of the database."""
        self._cursor.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        try:
            yield
        finally:
            # Not ROLLBACK: psycopg would discard its prepared statements.
            self._cursor.execute("COMMIT")

    def _hold(self, swarm_id: object) -> bool:
        """Lock the swarm until the end of the transaction. False if it does not exist."""
        if swarm_id not in self._held:
            if swarm_id in self._locked:
                raise LockedElsewhereError
            try:
                row = self._execute("hold_swarm", {"swarm_id": swarm_id}).fetchone()
            except psycopg.errors.LockNotAvailable:
                self._locked.add(swarm_id)
                raise
            if row is None:
                return False
            self._held.add(swarm_id)
        return True

    def _execute(self, query: str, parameters: Parameters) -> psycopg.Cursor:
        return self._cursor.execute(self._queries[query], parameters)


def mismatch_of(error: Exception) -> SchemaMismatch | None:
    """Our queries are fixed, so a table or column that is missing is the fault of the schema."""
    is_missing = isinstance(error, psycopg.errors.UndefinedTable | psycopg.errors.UndefinedColumn)
    return schema_mismatch(error) if is_missing else None
