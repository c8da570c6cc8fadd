"""Workers that are free for certain: their polls can wait without asking the store.

A worker that reported its task done is free until an event says otherwise, and where one server has
the database its hub sees every event that concerns a worker. Most polls come right behind such a
report.
"""

from __future__ import annotations

import time
from typing import Any, Final

from shiftboss.protocol.events import Event, EventKind

# Beyond it all is forgotten, and the store is asked.
KNOWN_MAX: Final = 100_000
# A poll that comes later asks the store: the swarm may be gone.
CERTAIN_SECONDS: Final = 60.0

_Worker = tuple[str, str]


class FreeWorkers:
    def __init__(self) -> None:
        # Since when, by the monotonic clock.
        self._free: dict[_Worker, float] = {}
        # The task that each worker was given last, as long as nothing else was heard of it.
        self._given: dict[_Worker, str] = {}

    def hear(self, event: Event, data: dict[str, Any]) -> None:
        """Of an event that names its worker."""
        worker = (event.swarm_id, data["worker"])
        given = self._given.pop(worker, None)
        self._free.pop(worker, None)
        self._stay_small()
        if event.kind == EventKind.TASK_ASSIGNED.value:
            self._given[worker] = data["bead_id"]
        elif event.kind == EventKind.TASK_DONE.value and given == data["bead_id"]:
            self._free[worker] = time.monotonic()

    def take(self, swarm_id: str, worker: str) -> bool:
        """Whether the worker is free for certain. The next poll asks the store."""
        since = self._free.pop((swarm_id, worker), None)
        return since is not None and time.monotonic() - since < CERTAIN_SECONDS

    def _stay_small(self) -> None:
        if len(self._free) + len(self._given) >= KNOWN_MAX:
            self._free.clear()
            self._given.clear()
