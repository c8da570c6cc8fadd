"""Writes of one transaction that become one statement, because none of them was sent yet.

A task that is added and handed out at once is inserted as it is in the end, a worker is written
once, and the events of several reports are one INSERT. Only between statements that are sent
together, so nobody can have read what is left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Final, NamedTuple

from shiftboss.store.postgres.pipeline import Pipeline, Statement
from shiftboss.store.transaction_part import Parameters

# A statement for each number of rows is prepared on each connection.
_EVENTS_MAX: Final = 8
_EVENTS: Final = "events"
_PARAMETER: Final = re.compile(r":(\w+)")
# The columns that name the row that a query writes.
_KEYS: Final[Mapping[str, tuple[str, str]]] = {
    "add_task": ("swarm_id", "task_id"),
    "save_task": ("swarm_id", "task_id"),
    "put_worker": ("swarm_id", "name"),
}
# What a second `put_worker` leaves as the first one wrote it.
_KEPT: Final = "registered_at_ms"
# Deletes nothing but its own row.
_DELETES_ONE_ROW: Final = "end_assignment"


class _Write(NamedTuple):
    number: int
    query: str
    parameters: Parameters


class MergedWrites:
    def __init__(self, pipeline: Pipeline, statements: Mapping[str, Statement]) -> None:
        self._pipeline = pipeline
        self._statements = statements
        # By table, what was not sent yet: rows by their keys, and the INSERT of events.
        self._rows: dict[str, dict[tuple[object, object], _Write]] = {}
        self._events: tuple[int, int] | None = None
        self._round_trips = 0

    def clear(self) -> None:
        self._rows.clear()
        self._events = None

    def write(self, query: str, parameters: Parameters) -> None:
        self._forget_sent()
        if query == "add_event":
            self._add_event(parameters)
        elif query in _KEYS:
            self._write_row(query, parameters)
        else:
            statement = self._statements[query]
            self.pass_by(query)
            self._pipeline.add(statement, parameters)

    def pass_by(self, query: str) -> None:
        """Nothing is moved past a statement on the same table, nor past one that may delete rows of
        others."""
        statement = self._statements[query]
        if statement.deletes and query != _DELETES_ONE_ROW:
            self.clear()
            return
        for table in statement.tables:
            self._rows.pop(table, None)
            if table == _EVENTS:
                self._events = None

    def _forget_sent(self) -> None:
        if self._round_trips != self._pipeline.round_trips:
            self._round_trips = self._pipeline.round_trips
            self.clear()

    def _add_event(self, parameters: Parameters) -> None:
        statement = self._statements["add_event"]
        if self._events is None or self._events[1] == _EVENTS_MAX:
            self._events = self._pipeline.add(statement, parameters), 1
        else:
            number, count = self._events
            rows = _several_rows(statement, count + 1)
            self._pipeline.add_row(number, statement, parameters, rows)
            self._events = number, count + 1

    def _write_row(self, query: str, parameters: Parameters) -> None:
        statement = self._statements[query]
        (table,) = statement.tables
        first, second = _KEYS[query]
        key = parameters[first], parameters[second]
        rows = self._rows.setdefault(table, {})
        before = rows.get(key)
        if before is None or query == "add_task":
            rows[key] = _Write(self._pipeline.add(statement, parameters), query, parameters)
            return
        # What the later statement would not have changed stays as it is.
        changed = {name: parameters[name] for name in statement.parameters if name != _KEPT}
        merged = before._replace(parameters={**before.parameters, **changed})
        self._pipeline.replace(merged.number, self._statements[merged.query], merged.parameters)
        rows[key] = merged


@cache
def _several_rows(insert: Statement, count: int) -> Statement:
    head, row = insert.named_text.split("VALUES")
    rows = [_PARAMETER.sub(rf":\1_{number}", row) for number in range(count)]
    return Statement(f"{insert.name}, {count} rows", f"{head}VALUES{','.join(rows)}")
