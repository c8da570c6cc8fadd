"""Sessions on the connections of the pool, and what to do when the database hangs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from psycopg_pool import PoolTimeout

from shiftboss.store.postgres.connections import (
    CONNECTION_WAIT_SECONDS,
    BoundedPool,
    take_connection,
)
from shiftboss.store.postgres.hung_database import BoundedConnection, HungDatabaseError
from shiftboss.store.postgres.session import PostgresSession
from shiftboss.store.transaction_part import ParkedPolls

# A database that hangs is left alone for this long. Whatever else was waiting for it is refused
# at once, instead of finding the same out one after the other.
HUNG_PAUSE_SECONDS = 1.0


class SessionPool:
    """For the threads of a store. `node` announces its commits on `channel`."""

    def __init__(self, pool: BoundedPool, node: str, channel: str, polls: ParkedPolls) -> None:
        self._pool = pool
        self._node = node
        self._channel = channel
        self._polls = polls
        # Epochs at or below it may have been handed out before a backup was restored.
        self.epoch_floor = 0
        self._is_hung = False
        self._hung_until = 0.0

    @contextmanager
    def take(
        self, lock_seconds: float | None = None, waited_seconds: float = 0.0
    ) -> Iterator[PostgresSession]:
        """`lock_seconds`: how long to wait for locks, unless as usual. `waited_seconds`: how long
        the caller has waited already, in a queue."""
        if time.monotonic() < self._hung_until:
            raise HungDatabaseError("PostgreSQL did not answer a moment ago")
        connection = self._connect(max(CONNECTION_WAIT_SECONDS - waited_seconds, 0.0))
        try:
            session = PostgresSession(
                connection, self._node, self._channel, self._polls, self.epoch_floor
            )
            session.lock_seconds = lock_seconds
            yield session
        finally:
            self._note(is_hung=connection.is_hung)
            self._pool.putconn(connection)

    def _connect(self, seconds: float) -> BoundedConnection:
        try:
            return take_connection(self._pool, seconds)
        except PoolTimeout:
            # If PostgreSQL does not hang, it may be restarting, which is worth everybody's wait.
            self._note(is_hung=self._is_hung)
            raise

    def _note(self, *, is_hung: bool) -> None:
        self._is_hung = is_hung
        if is_hung:
            self._hung_until = time.monotonic() + HUNG_PAUSE_SECONDS
