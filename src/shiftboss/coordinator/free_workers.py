"""Workers that are free for certain: their polls can wait without asking the store.

A worker that reported its task done is free until an event says otherwise, and the hub sees every
event that concerns a worker. Most polls come right behind such a report.
"""

from __future__ import annotations

import time
from typing import Any, Final

from shiftboss.protocol.events import Event, EventKind

# Of workers and swarms. Beyond it all is forgotten, and the store is asked.
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
        self._last_event_ids: dict[str, int] = {}

    def hear(self, event: Event, data: dict[str, Any]) -> None:
        """Of an event that names its worker."""
        worker = (event.swarm_id, data["worker"])
        given = self._given.pop(worker, None)
        self._free.pop(worker, None)
        # Another server's event may come late, when more is known of the worker than it tells.
        if event.event_id <= self._last_event_ids.get(event.swarm_id, 0):
            return
        self._stay_small()
        self._last_event_ids[event.swarm_id] = event.event_id
        if event.kind == EventKind.TASK_ASSIGNED.value:
            self._given[worker] = data["bead_id"]
        elif event.kind == EventKind.TASK_DONE.value and given == data["bead_id"]:
            self._free[worker] = time.monotonic()

    def take(self, swarm_id: str, worker: str) -> bool:
        """Whether the worker is free for certain. Once only: should an event get lost on its way
        from another server, the next poll asks the store."""
        since = self._free.pop((swarm_id, worker), None)
        return since is not None and time.monotonic() - since < CERTAIN_SECONDS

    def _stay_small(self) -> None:
        if len(self._free) + len(self._given) + len(self._last_event_ids) >= KNOWN_MAX:
            self._free.clear()
            self._given.clear()
            self._last_event_ids.clear()
