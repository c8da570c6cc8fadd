"""What a session knows without asking: what was true at its last statement and still must be.

Every write goes to the database and here. A rollback forgets all.
"""

from __future__ import annotations

from typing import Final, Generic, TypeVar

from shiftboss.rules.tasks.packets import Assignment
from shiftboss.rules.tasks.tasks import Task, Worker

R = TypeVar("R")

# Enough for what is in hand; a task may have a long description.
ROWS_MAX: Final = 2_000

Key = tuple[str, str]


class Unknown:
    """Neither here nor known to be absent."""


UNKNOWN: Final = Unknown()


class CachedRows(Generic[R]):
    """The rows of one table by their keys; None where there is no such row."""

    def __init__(self, rows_max: int) -> None:
        self._rows: dict[Key, R | None] = {}
        self._rows_max = rows_max

    def get(self, swarm_id: str, name: str) -> R | Unknown | None:
        return self._rows.get((swarm_id, name), UNKNOWN)

    def put(self, swarm_id: str, name: str, row: R | None) -> None:
        if len(self._rows) >= self._rows_max:
            self._rows.clear()
        if self._rows_max:
            self._rows[(swarm_id, name)] = row

    def forget(self, swarm_id: str, name: str) -> None:
        self._rows.pop((swarm_id, name), None)

    def clear(self) -> None:
        self._rows.clear()


class CachedSwarms:
    """Swarms of which something is known."""

    def __init__(self, swarms_max: int) -> None:
        self._swarms: set[str] = set()
        self._swarms_max = swarms_max

    def __contains__(self, swarm_id: str) -> bool:
        return swarm_id in self._swarms

    def add(self, swarm_id: str) -> None:
        if len(self._swarms) < self._swarms_max:
            self._swarms.add(swarm_id)

    def discard(self, swarm_id: str) -> None:
        self._swarms.discard(swarm_id)

    def clear(self) -> None:
        self._swarms.clear()


class RowCache:
    """`event_ids`: the last event id of each swarm, as long as nobody else can have added to it,
    which is at least for the use cases of one commit, which hold the swarm.

    Rows are kept only where nobody else writes to the database: `rows_max`. There, too, the tasks
    that no other waits for, and the swarms in which none is ready, or none held back.
    """

    def __init__(self, rows_max: int = 0) -> None:
        self.event_ids: dict[str, int] = {}
        self.tasks: CachedRows[Task] = CachedRows(rows_max)
        self.workers: CachedRows[Worker] = CachedRows(rows_max)
        self.assignments: CachedRows[Assignment] = CachedRows(rows_max)
        self.without_dependents: CachedRows[bool] = CachedRows(rows_max)
        self.without_ready = CachedSwarms(rows_max)
        self.without_holds = CachedSwarms(rows_max)

    def clear(self) -> None:
        self.event_ids.clear()
        self.tasks.clear()
        self.workers.clear()
        self.assignments.clear()
        self.without_dependents.clear()
        self.without_ready.clear()
        self.without_holds.clear()
