"""Workers that are free for certain: their polls can wait without asking the store.

A worker that reported its task done is free until an event says otherwise, and the hub sees every
event that concerns a worker. Most polls come right behind such a report.
"""

from __future__ import annotations

from typing import Any, Final

from shiftboss.protocol.events import EventKind

# More workers than this in one swarm are asked about in the store.
WORKERS_MAX: Final = 100_000

_Worker = tuple[str, str]


class FreeWorkers:
    def __init__(self) -> None:
        self._free: set[_Worker] = set()
        # The task that each worker was given last, as long as nothing else was heard of it.
        self._given: dict[_Worker, str] = {}

    def hear(self, kind: str, swarm_id: str, data: dict[str, Any]) -> None:
        """Of an event that names its worker."""
        worker = (swarm_id, data["worker"])
        given = self._given.pop(worker, None)
        self._free.discard(worker)
        if len(self._given) + len(self._free) >= WORKERS_MAX:
            return
        if kind == EventKind.TASK_ASSIGNED.value:
            self._given[worker] = data["bead_id"]
        # Another server's event may come late: then the worker has its next task already.
        elif kind == EventKind.TASK_DONE.value and given == data["bead_id"]:
            self._free.add(worker)

    def take(self, swarm_id: str, worker: str) -> bool:
        """Whether the worker is free for certain. Once only: should an event get lost on its way
        from another server, the next poll asks the store."""
        try:
            self._free.remove((swarm_id, worker))
        except KeyError:
            return False
        return True
