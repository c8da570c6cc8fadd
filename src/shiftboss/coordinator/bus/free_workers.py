"""A cache of the workers that are known to be free, so that their polls need no query.

A worker that reported its task done is free until an event says otherwise. Where one server has
the database to itself, its hub sees every such event. Most polls follow right after such a report.
"""

from __future__ import annotations

import time
from typing import Any, Final

from shiftboss.protocol.events import Event, EventKind

# When there are more, the cache is emptied and polls ask the store.
WORKERS_MAX: Final = 100_000
# A poll that comes later asks the store, because the swarm may have been deleted.
VALID_SECONDS: Final = 60.0

_Worker = tuple[str, str]


class FreeWorkers:
    def __init__(self) -> None:
        # When the worker became free, by the monotonic clock.
        self._free_since: dict[_Worker, float] = {}
        # The task of the last assignment event, if no other event of the worker followed it.
        self._assigned: dict[_Worker, str] = {}
        # The workers of a swarm with an offer that no poll had received when it was made, if no
        # other event of the worker followed it. Another worker's poll may take it over.
        self._offered: dict[str, set[str]] = {}

    def on_event(self, event: Event, data: dict[str, Any]) -> None:
        """Update the cache from an event that names its worker."""
        worker = (event.swarm_id, data["worker"])
        assigned = self._assigned.pop(worker, None)
        self._free_since.pop(worker, None)
        self._forget_offer(worker)
        if len(self._free_since) + len(self._assigned) >= WORKERS_MAX:
            self._free_since.clear()
            self._assigned.clear()
        if event.kind == EventKind.TASK_ASSIGNED.value:
            self._assigned[worker] = data["bead_id"]
            if not data.get("received", True):
                self._offered.setdefault(event.swarm_id, set()).add(data["worker"])
        elif event.kind == EventKind.TASK_DONE.value and assigned == data["bead_id"]:
            self._free_since[worker] = time.monotonic()

    def take(self, swarm_id: str, worker: str) -> bool:
        """Whether the worker is known to be free and there is no offer to take over. The entry is
        used up: the next poll asks the store."""
        since = self._free_since.pop((swarm_id, worker), None)
        if since is None or swarm_id in self._offered:
            return False
        return time.monotonic() - since < VALID_SECONDS

    def _forget_offer(self, worker: _Worker) -> None:
        swarm_id, name = worker
        workers = self._offered.get(swarm_id)
        if workers is not None:
            workers.discard(name)
            if not workers:
                del self._offered[swarm_id]
