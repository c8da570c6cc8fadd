"""What a use case is about to read, fetched together with the lock of its swarm.

A use case says what it is (`Prefetch`), and its further reads go in the round trip of the first.
The rows are kept until the transaction ends, or changes a table that they were read from. Nobody
else changes them: the transaction holds the swarm.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast

from shiftboss.store.postgres.pipeline import Pipeline, Statement
from shiftboss.store.transaction_part import Parameters, Prefetch, Row

# The columns of `free_workers`.
_WORKER: Final = (
    "swarm_id",
    "name",
    "task_id",
    "available",
    "registered_at_ms",
    "last_activity_at_ms",
)
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
    },
    Prefetch.QUEUE: {"last_queue_number": _NOTHING, "ready_at_or_above": _NOTHING},
    Prefetch.POLL: {"task_of_worker": _NOTHING},
    Prefetch.HEARTBEAT: {"holds_of_task": _NOTHING},
    Prefetch.DRAIN: {"next_task": _NOTHING, "free_workers": _ONE},
}

# A query with its parameters, in their order.
ReadAhead = tuple[str, tuple[object, ...]]


class PrefetchedRows:
    """The rows that one transaction has read ahead."""

    def __init__(self, statements: Mapping[str, Statement]) -> None:
        self._statements = statements
        self._wanted: dict[ReadAhead, Parameters] = {}
        self._known: dict[ReadAhead, list[Row]] = {}

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
        return self._known.get(self._key(query, parameters)) if self._known else None

    def send(self, pipeline: Pipeline, query: str, parameters: Parameters) -> list[ReadAhead]:
        """Add what is wanted, and not known yet, to the next round trip, that of `query`."""
        if not self._wanted:
            return []
        wanted, self._wanted = self._wanted, {}
        asked = self._key(query, parameters)
        keys = [key for key in wanted if key not in self._known and key != asked]
        for key in keys:
            pipeline.add(self._statements[key[0]], wanted[key])
        return keys

    def keep(self, key: ReadAhead, rows: list[Row]) -> None:
        if key[0] == "task_of_worker":
            if not rows:
                return
            key = ("task", (rows[0][0], rows[0][1]))
        self._known[key] = rows

    def forget_changed(self, query: str, parameters: Parameters) -> None:
        """Before a write."""
        if not self._known:
            return
        changed = self._statements[query]
        if changed.deletes and query != "end_assignment":
            self._known.clear()  # rows of other tables may go with those
            return
        for key, rows in list(self._known.items()):
            if changed.tables & self._statements[key[0]].tables:
                left = _rows_after(key, rows, query, parameters)
                if left is None:
                    del self._known[key]
                else:
                    self._known[key] = left

    def _key(self, query: str, parameters: Parameters) -> ReadAhead:
        return query, tuple([parameters[name] for name in self._statements[query].parameters])


def _rows_after(
    key: ReadAhead, rows: list[Row], write: str, written: Parameters
) -> list[Row] | None:
    """What the read would give after the write; None if that cannot be told."""
    read, values = key
    if write == "save_task" and read in ("next_task", "dependents"):
        if written["swarm_id"] != values[0]:
            return rows
        # A task that is not queued now was not the first of the queue, unless it is among the rows.
        may_be_new = read == "next_task" and written["status"] == "queued"
        is_known = any(row[1] == written["task_id"] for row in rows)
        return None if may_be_new or is_known else rows
    if (read, write) == ("free_workers", "put_worker"):
        return rows if written["swarm_id"] != values[0] else _free_after(rows, values[1], written)
    return None


def _free_after(rows: list[Row], limit: object, worker: Parameters) -> list[Row] | None:
    """The least recently used free workers, at most `limit`, after `worker` was written."""
    others = [row for row in rows if row[1] != worker["name"]]
    if len(others) < len(rows) == limit:
        return None  # another one may move up
    if worker["task_id"] is None and worker["available"]:
        others.append([worker[column] for column in _WORKER])
    others.sort(key=lambda row: (row[5], row[1]))
    return others[: cast("int", limit)]
