"""Statements that are sent together: one round trip for all that nobody waits for in between.

PostgreSQL runs them one after the other, each with a snapshot of its own, as if they had been sent
one by one. If one fails, those behind it are skipped, a COMMIT among them.

This is the pipeline mode of libpq, below psycopg's cursors: these need more processor time than
PostgreSQL needs for a short statement. psycopg waits, reads the values and names the errors.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import psycopg
from psycopg.abc import PQGen
from psycopg.adapt import Transformer
from psycopg.errors import error_from_result
from psycopg.generators import fetch_many, send
from psycopg.pq import ConnStatus, ExecStatus
from psycopg.pq.abc import PGresult

from shiftboss.store.postgres.hung_database import BoundedConnection, HungDatabaseError
from shiftboss.store.queries import numbered
from shiftboss.store.transaction_part import Row

# The types of parameters, as PostgreSQL numbers them. It finds out the others by itself.
_INFERRED: Final = 0
_TYPES: Final[Mapping[type, int]] = {bool: 16, bytes: 17, int: 20, float: 701}
_TEXT: Final = 0
_BINARY: Final = 1
_TABLE: Final = re.compile(r"\b(?:FROM|JOIN|INTO|UPDATE)\s+(?!SET\b)(\w+)")
# Between the answers to two statements there is one miss.
_MISSES_MAX: Final = 2
_SUCCESSES: Final = frozenset({ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK})


class Statement:
    """A statement with named parameters, prepared on each connection when it is first used."""

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.named_text = text
        numbered_text, self.parameters = numbered(text)
        self.text = numbered_text.encode()
        self.tables = frozenset(_TABLE.findall(text))
        self.changes = not text.startswith("SELECT")
        self.deletes = text.startswith("DELETE")
        self._types: tuple[int, ...] = (_INFERRED,) * len(self.parameters)

    def types_of(self, values: Sequence[object]) -> tuple[int, ...]:
        """A value that is missing has the type of those before: no statement of its own."""
        types = tuple(
            known if value is None else _TYPES.get(type(value), _INFERRED)
            for value, known in zip(values, self._types, strict=True)
        )
        self._types = types  # at once: connections of other threads use the same statement
        return types


class _Waiting(NamedTuple):
    statement: Statement
    types: tuple[int, ...]
    values: list[bytes | None]
    formats: list[int]


# The prepared statement that a message makes, or None for one that runs a statement.
_Prepares = tuple[str, tuple[int, ...]] | None


class Pipeline:
    """The statements of one connection."""

    def __init__(self, connection: BoundedConnection) -> None:
        self._connection = connection
        self._pgconn = connection.pgconn
        self._transformer = Transformer(connection)
        self._waiting: list[_Waiting] = []
        self._answers: list[PGresult] = []
        # Of the statements that were sent last, the one that failed.
        self.failed: int | None = None
        self.round_trips = 0
        self.statements = 0

    def add(self, statement: Statement, parameters: Mapping[str, object]) -> int:
        """Send it with the next `flush`; its number among the statements of that."""
        self._waiting.append(_waiting(statement, parameters))
        return len(self._waiting) - 1

    def replace(self, number: int, statement: Statement, parameters: Mapping[str, object]) -> None:
        """Send this instead of an earlier one that was not sent yet."""
        self._waiting[number] = _waiting(statement, parameters)

    def add_row(
        self, number: int, row: Statement, parameters: Mapping[str, object], rows: Statement
    ) -> None:
        """Add the row of an INSERT to an earlier one, which was not sent yet. `rows` is the
        statement with all of its rows."""
        before, added = self._waiting[number], _waiting(row, parameters)
        self._waiting[number] = _Waiting(
            rows,
            before.types + added.types,
            before.values + added.values,
            before.formats + added.formats,
        )

    def drop(self) -> None:
        """Forget what was not sent yet."""
        self._waiting.clear()

    def flush(self) -> list[PGresult]:
        """Send what waits, and wait for all answers. Raises the error of the first that failed;
        those behind it were not run."""
        waiting, self._waiting = self._waiting, []
        self._answers = []
        self.failed = None
        if not waiting:
            return []
        self.round_trips += 1
        self.statements += len(waiting)
        self._pgconn.enter_pipeline_mode()
        messages = [message for each in waiting for message in self._send(each)]
        self._pgconn.pipeline_sync()
        try:
            self._connection.wait(self._communicate(len(messages)))
        except HungDatabaseError:
            raise
        except psycopg.OperationalError:
            # PostgreSQL may have said why it ended the connection, and at which statement.
            self._read_rest(len(messages))
            if all(self._succeeded(position) for position in range(len(self._answers))):
                raise
        finally:
            self._forget_unprepared(messages)
        if self._pgconn.status == ConnStatus.OK:
            self._pgconn.exit_pipeline_mode()
        return self._checked(messages)

    def rows(self, result: PGresult) -> list[Row]:
        self._transformer.set_pgresult(result)
        return self._transformer.load_rows(0, result.ntuples, tuple)

    def _send(self, waiting: _Waiting) -> list[_Prepares]:
        statement, types, values, formats = waiting
        key = (statement.name, types)
        prepared = self._connection.prepared
        name = prepared.get(key)
        messages: list[_Prepares] = [None]
        if name is None:
            name = prepared[key] = next(self._connection.names)
            self._pgconn.send_prepare(name, statement.text, types)
            messages = [key, None]
        self._pgconn.send_query_prepared(name, values, formats)
        return messages

    def _communicate(self, count: int) -> PQGen[None]:
        yield from send(self._pgconn)
        while len(self._answers) < count and self._pgconn.status == ConnStatus.OK:
            results = yield from fetch_many(self._pgconn)
            if results:
                self._answers.append(results[-1])
        if self._pgconn.status == ConnStatus.OK:
            yield from fetch_many(self._pgconn)  # of the end of the pipeline

    def _read_rest(self, count: int) -> None:
        """What came before the connection was lost. Waits for nothing."""
        misses = 0
        while len(self._answers) < count and misses < _MISSES_MAX:
            result = self._pgconn.get_result()
            if result is None:
                misses += 1
            else:
                misses = 0
                self._answers.append(result)

    def _forget_unprepared(self, messages: list[_Prepares]) -> None:
        for position, key in enumerate(messages):
            if key is not None and not self._succeeded(position):
                del self._connection.prepared[key]

    def _succeeded(self, position: int) -> bool:
        answers = self._answers
        return position < len(answers) and answers[position].status in _SUCCESSES

    def _checked(self, messages: list[_Prepares]) -> list[PGresult]:
        results: list[PGresult] = []
        for position, key in enumerate(messages):
            if not self._succeeded(position):
                self.failed = len(results)
                raise self._error(position)
            if key is None:
                results.append(self._answers[position])
        return results

    def _error(self, position: int) -> psycopg.Error:
        if position < len(self._answers):
            return error_from_result(self._answers[position])
        return psycopg.OperationalError("the connection was lost before all answers came")


def _waiting(statement: Statement, parameters: Mapping[str, object]) -> _Waiting:
    values = [parameters[name] for name in statement.parameters]
    return _Waiting(
        statement,
        statement.types_of(values),
        [_encoded(value) for value in values],
        [_BINARY if type(value) is bytes else _TEXT for value in values],
    )


def _encoded(value: object) -> bytes | None:
    if value is None or type(value) is bytes:
        return value
    if type(value) is bool:
        return b"t" if value else b"f"
    text = str(value)
    if "\0" in text:
        raise psycopg.DataError("PostgreSQL text fields cannot contain NUL (0x00) bytes")
    return text.encode()
