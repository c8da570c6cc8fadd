"""The simulated database: real SQLite in memory, shared by all servers, with commits that fail.

Every transaction of every server runs on one connection, one after the other. What is lost in a
crash is what was not committed: SQLite rolls it back.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Literal

from shiftboss.store.row_cache import RowCache
from shiftboss.store.sqlite.session import SqliteSession
from shiftboss.store.transaction import SqlTransaction
from shiftboss.store.transaction_part import NO_PARKED_POLLS, ParkedPolls

# What becomes of a commit. Unsure: it was made, but the server does not learn of it.
Fate = Literal["made", "refused", "unsure", "crash_before", "crash_after"]
IN_MEMORY = Path(":memory:")


class ServerCrash(BaseException):
    """The server died in this commit. Not an Exception: nothing may handle it and go on."""


class SimulatedSession(SqliteSession):
    """The session of one server. `is_shared`: other servers write, too, so nothing is remembered
    from one transaction to the next."""

    def __init__(
        self, connection: sqlite3.Connection, *, polls: ParkedPolls, is_shared: bool
    ) -> None:
        row_cache = None if is_shared else RowCache()
        super().__init__(IN_MEMORY, row_cache=row_cache, polls=polls, connection=connection)
        self._is_shared = is_shared
        self.fate: Fate = "made"

    def begin(self) -> None:
        if self._is_shared:
            self.forget()
        super().begin()

    def commit(self) -> None:
        if self.fate == "crash_before":
            raise ServerCrash
        if self.fate == "refused":
            raise sqlite3.OperationalError("disk I/O error")
        super().commit()
        if self.fate == "crash_after":
            raise ServerCrash


class SimulatedDatabase:
    """`on_commit` is called after every commit, with the store that made it."""

    def __init__(self, on_commit: Callable[[object], None]) -> None:
        self.connection = sqlite3.connect(":memory:", isolation_level=None, cached_statements=256)
        self.connection.deserialize(_empty_database())
        self.on_commit = on_commit
        self._reader = SqliteSession(IN_MEMORY, connection=self.connection)

    def session(self, polls: ParkedPolls = NO_PARKED_POLLS, *, is_shared: bool) -> SimulatedSession:
        return SimulatedSession(self.connection, polls=polls, is_shared=is_shared)

    def transaction(self) -> SqlTransaction:
        """For reading what is committed."""
        return SqlTransaction(self._reader)

    def begin_term(self, term: int) -> None:
        """Another server leads, between two transactions."""
        self.connection.execute("UPDATE leadership SET term = ?", (term,))

    def close(self) -> None:
        self.connection.close()


@cache
def _empty_database() -> bytes:
    """An empty database with all tables. The migrations take longer than most simulations."""
    session = SqliteSession(
        IN_MEMORY, connection=(connection := sqlite3.connect(":memory:", isolation_level=None))
    )
    session.migrate()
    content = connection.serialize()
    session.close()
    return content
