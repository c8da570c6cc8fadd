"""What a use case is about to read, fetched together with the lock of its swarm.

A use case says what it is (`Prefetch`), and its further reads go in the round trip of the first.
The rows are kept until the transaction ends, or changes a table that they were read from. Nobody
else changes them: the transaction holds the swarm. A row that the transaction itself has written is
known, too, without asking for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, cast

from shiftboss.rules.tasks.packets import Assignment
from shiftboss.rules.tasks.tasks import Task, Worker
from shiftboss.store.postgres.pipeline import Pipeline, Statement
from shiftboss.store.transaction_part import ASSIGNMENT_COLUMNS, Parameters, Prefetch, Row

# How many rows `next_task` gives: the second is the next one after the first was handed out.
NEXT_TASKS: Final = 2
_ONE: Final[Parameters] = {"limit": 1}
_NOTHING: Final[Parameters] = {}
# The queries, and those of their parameters that are always the same.
_READS: Final[Mapping[Prefetch, Mapping[str, Parameters]]] = {
    Prefetch.ADD: {"task": _NOTHING, "dependencies": _NOTHING, "holds_of_task": _NOTHING},
    Prefetch.SUBMIT: {"holds_of_task": _NOTHING, "free_workers": _ONE},
    Prefetch.REPORT: {"event_of_report": _NOTHING},
    Prefetch.FINISH: {
        "event_of_report": _NOTHING,
        "dependents": _NOTHING,
        "next_task": _NOTHING,
        "free_workers": _ONE,
        "has_offers": _NOTHING,
    },
    Prefetch.QUEUE: {"last_queue_number": _NOTHING, "ready_at_or_above": _NOTHING},
    Prefetch.POLL: {"task_of_worker": _NOTHING},
    Prefetch.HEARTBEAT: {"holds_of_task": _NOTHING},
    Prefetch.DRAIN: {"next_task": _NOTHING, "free_workers": _ONE},
}

# A query with its parameters, in their order.
ReadAhead = tuple[str, tuple[object, ...]]

# The reads of one row by its key, and the writes of such a row: whole, or in parts.
_WHOLE_ROWS: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "add_task": ("task", Task._fields),
    "save_task": ("task", Task._fields),
    "put_worker": ("worker", Worker._fields),
    "put_assignment": ("assignment", Assignment._fields),
}
_ROWS_BY_KEY: Final = frozenset({"task", "worker", "assignment"})
_ROW_WRITES: Final = frozenset(
    {*_WHOLE_ROWS, "save_assignment", "save_progress", "save_lease", "end_assignment"}
)
_NO_ASSIGNMENT: Final = (None,) * (ASSIGNMENT_COLUMNS - 1)


class _KnownRows(NamedTuple):
    rows: list[Row]
    # Whether there are no others. If there may be, these are the first.
    are_all: bool = True


class PrefetchedRows:
    """The rows that one transaction has read ahead, or has written."""

    def __init__(self, statements: Mapping[str, Statement]) -> None:
        self._statements = statements
        self._wanted: dict[ReadAhead, Parameters] = {}
        # By query and parameters.
        self._known: dict[str, dict[tuple[object, ...], _KnownRows]] = {}

    def clear(self) -> None:
        self._wanted.clear()
        self._known.clear()

    def prefetch(self, use: Prefetch, parameters: Parameters) -> None:
        """Reads with a parameter that the use case does not have are left out."""
        for query, fixed in _READS[use].items():
            known = {**parameters, **fixed}
            names = self._statements[query].parameters
            if all(known.get(name) is not None for name in names):
                self._wanted[self._key(query, known)] = known

    def known(self, query: str, parameters: Parameters) -> list[Row] | None:
        if query == "take_worker":
            return self._taken_worker(parameters)
        known = self._known.get(query)
        if not known:
            return None
        entry = known.get(self._key(query, parameters)[1])
        return None if entry is None else entry.rows

    def send(self, pipeline: Pipeline, query: str, parameters: Parameters) -> list[ReadAhead]:
        """Add what is wanted, and not known yet, to the next round trip, that of `query`."""
        if not self._wanted:
            return []
        wanted, self._wanted = self._wanted, {}
        asked = self._key(query, parameters)
        keys = [key for key in wanted if key[1] not in self._known.get(key[0], ()) and key != asked]
        for key in keys:
            pipeline.add(self._statements[key[0]], wanted[key])
        return keys

    def keep(self, key: ReadAhead, rows: list[Row]) -> None:
        query, values = key
        are_all = True
        if query == "task_of_worker":
            if not rows:
                return
            query, values = "task", (rows[0][0], rows[0][1])
        elif query == "free_workers":
            are_all = len(rows) < cast("int", values[1])
        elif query == "next_task":
            are_all = len(rows) < NEXT_TASKS
        self._known.setdefault(query, {})[values] = _KnownRows(rows, are_all)

    def note_write(self, query: str, parameters: Parameters) -> None:
        """Before a write: forget what it changes, or change it."""
        if not self._known:
            return
        changed = self._statements[query]
        if changed.deletes and query != "end_assignment":
            self._known.clear()  # rows of other tables may go with those
            return
        for read, entries in list(self._known.items()):
            if not changed.tables & self._statements[read].tables:
                continue
            if read in _ROWS_BY_KEY and query in _ROW_WRITES:
                entries.pop(self._key(read, parameters)[1], None)
                continue
            for values, entry in list(entries.items()):
                left = _rows_after(read, values, entry, query, parameters)
                if left is None:
                    del entries[values]
                else:
                    entries[values] = left

    def remember(self, query: str, parameters: Parameters) -> None:
        """After a write of the transaction, which nobody else can change before its end."""
        if query in _WHOLE_ROWS:
            read, columns = _WHOLE_ROWS[query]
            row = tuple([parameters[column] for column in columns])
            self._known.setdefault(read, {})[self._key(read, parameters)[1]] = _KnownRows([row])
        elif query == "end_assignment":
            key = self._key("assignment", parameters)[1]
            self._known.setdefault("assignment", {})[key] = _KnownRows([])

    def _taken_worker(self, parameters: Parameters) -> list[Row] | None:
        """The row of `take_worker`, if all of it is known."""
        workers = self.known("worker", parameters)
        offers = self.known("has_offers", parameters)
        if not workers or offers is None:
            return None
        worker = workers[0]
        assignments: list[Row] | None = []
        if worker[2] is not None:
            of_task = {"swarm_id": worker[0], "task_id": worker[2]}
            assignments = self.known("assignment", of_task)
        if assignments is None:
            return None
        # The task of a worker that holds none needs no look.
        self._wanted.pop(self._key("task_of_worker", parameters), None)
        assignment = assignments[0] if assignments else (worker[0], *_NO_ASSIGNMENT)
        return [(*assignment, *worker[1:], bool(offers))]

    def _key(self, query: str, parameters: Parameters) -> ReadAhead:
        return query, tuple([parameters[name] for name in self._statements[query].parameters])


def _rows_after(
    read: str, values: tuple[object, ...], before: _KnownRows, write: str, written: Parameters
) -> _KnownRows | None:
    """What the read would give after the write; None if that cannot be told."""
    if write in _ROW_WRITES and written["swarm_id"] != values[0]:
        return before
    if write == "save_task" and read in ("next_task", "dependents"):
        return _tasks_after(read, before, written)
    if (read, write) == ("free_workers", "put_worker"):
        return _free_after(before, values[1], written)
    if read == "has_offers" and write in _ROW_WRITES:
        return _offers_after(before, write, written)
    return None


def _tasks_after(read: str, before: _KnownRows, written: Parameters) -> _KnownRows | None:
    others = [row for row in before.rows if row[1] != written["task_id"]]
    # A task that is not queued now was not the first of the queue, unless it is among the rows.
    if read == "next_task" and written["status"] != "queued":
        return before._replace(rows=others) if others or before.are_all else None
    return None if read == "next_task" or len(others) < len(before.rows) else before


def _free_after(before: _KnownRows, limit: object, worker: Parameters) -> _KnownRows | None:
    """The least recently used free workers, at most `limit`, after `worker` was written."""
    others = [row for row in before.rows if row[1] != worker["name"]]
    if len(others) < len(before.rows) and not before.are_all:
        return None  # another one may move up
    if worker["task_id"] is None and worker["available"]:
        others.append([worker[column] for column in Worker._fields])
    others.sort(key=lambda row: (row[5], row[1]))
    first = others[: cast("int", limit)]
    return _KnownRows(first, before.are_all and len(first) == len(others))


def _offers_after(before: _KnownRows, write: str, written: Parameters) -> _KnownRows | None:
    """Whether the swarm has an offer that no poll has received, after an assignment was written."""
    if write == "end_assignment" or "received" not in written:
        return None if before.rows else before
    if not written["received"] and written["state"] == "assigned":
        return _KnownRows([(1,)]) if write == "put_assignment" else None
    return None if before.rows else before
