"""Connections that do not wait forever: a PostgreSQL that hangs is cut off.

PostgreSQL ends statements that take too long by itself, but not while it is stopped, or while the
network swallows its answers. TCP does not notice either: the kernel of a stopped process still
acknowledges what it receives, and a socket of the file system has no such timeouts at all.
"""

from __future__ import annotations

from itertools import count
from typing import Any, TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.pq.abc import PGconn

T = TypeVar("T")

# How often psycopg looks for signals while it waits.
_INTERVAL = 0.1


class HungDatabaseError(psycopg.OperationalError):
    """PostgreSQL gave no answer in time. The connection is closed: its state is unknown."""


class BoundedConnection(psycopg.Connection[Any]):
    """`answer_seconds` is the longest wait for the answer to one statement. `is_hung`: it was not
    enough."""

    answer_seconds: float | None = None
    is_hung = False

    def __init__(self, pgconn: PGconn) -> None:
        super().__init__(pgconn)
        # The names of the prepared statements, by statement and types (`pipeline.py`).
        self.prepared: dict[tuple[str, tuple[int, ...]], bytes] = {}
        self.names = (f"shiftboss_{number}".encode() for number in count())

    def wait(self, gen: PQGen[T], interval: float = _INTERVAL, timeout: float | None = None) -> T:
        if timeout is not None:
            return super().wait(gen, interval, timeout)
        try:
            return super().wait(gen, interval, self.answer_seconds)
        except psycopg.errors._WaitTimeout as error:  # noqa: SLF001 (it has no public name)
            self.is_hung = True
            self.pgconn.finish()
            raise _hung(self.answer_seconds) from error


class AsyncBoundedConnection(psycopg.AsyncConnection[Any]):
    """The same for the event loop. Waiting for notifications has a timeout of its own."""

    answer_seconds: float | None = None

    async def wait(
        self,
        gen: PQGen[T],
        interval: float = _INTERVAL,
        timeout: float | None = None,  # noqa: ASYNC109 (a parameter of psycopg)
    ) -> T:
        if timeout is not None:
            return await super().wait(gen, interval, timeout)
        try:
            return await super().wait(gen, interval, self.answer_seconds)
        except psycopg.errors._WaitTimeout as error:  # noqa: SLF001 (it has no public name)
            self.pgconn.finish()
            raise _hung(self.answer_seconds) from error


def _hung(seconds: float | None) -> HungDatabaseError:
    return HungDatabaseError(f"PostgreSQL has not answered for {seconds:g} s")
