"""A cache of the workers that are known to be free, so that their polls need no query.

A worker that reported its task done is free until an event says otherwise. Where one server has
the database to itself, its hub sees every such event. Most polls follow right after such a report.
"""

from __future__ import annotations

import time
from typing import Any, Final

from shiftboss.protocol.events import Event, EventKind
from shiftboss.rules.tasks.leases import OFFER_MS

# When there are more, the cache is emptied and polls ask the store.
WORKERS_MAX: Final = 100_000
# A poll that comes later asks the store, because the swarm may have been deleted.
VALID_SECONDS: Final = 60.0
# An offer has expired by then, or its swarm was deleted.
OFFER_SECONDS: Final = 2 * OFFER_MS / 1000

_Worker = tuple[str, str]


class FreeWorkers:
    def __init__(self) -> None:
        # When the worker became free, by the monotonic clock.
        self._free_since: dict[_Worker, float] = {}
        # The task of the last assignment event, if no other event of the worker followed it.
        self._assigned: dict[_Worker, str] = {}
        # The workers of a swarm with an offer that no poll had received when it was made, if no
        # other event of the worker followed it, and the time of the last such offer. Another
        # worker's poll may take them over.
        self._offered: dict[str, set[str]] = {}
        self._last_offer_at: dict[str, float] = {}
        # The offers are unknown until then, because the cache was emptied.
        self._offers_unknown_until = 0.0

    def on_event(self, event: Event, data: dict[str, Any]) -> None:
        """Update the cache from an event that names its worker."""
        worker = (event.swarm_id, data["worker"])
        assigned = self._assigned.pop(worker, None)
        self._free_since.pop(worker, None)
        self._forget_offer(worker)
        if len(self._free_since) + len(self._assigned) + len(self._last_offer_at) >= WORKERS_MAX:
            self._clear()
        if event.kind == EventKind.TASK_ASSIGNED.value:
            self._assigned[worker] = data["bead_id"]
            if not data.get("received", True):
                self._offered.setdefault(event.swarm_id, set()).add(data["worker"])
                self._last_offer_at[event.swarm_id] = time.monotonic()
        elif event.kind == EventKind.TASK_DONE.value and assigned == data["bead_id"]:
            self._free_since[worker] = time.monotonic()

    def take(self, swarm_id: str, worker: str) -> bool:
        """Whether the worker is known to be free and there is no offer to take over. The entry is
        used up: the next poll asks the store."""
        since = self._free_since.pop((swarm_id, worker), None)
        if since is None or self._may_have_offers(swarm_id):
            return False
        return time.monotonic() - since < VALID_SECONDS

    def _may_have_offers(self, swarm_id: str) -> bool:
        now = time.monotonic()
        offered_at = self._last_offer_at.get(swarm_id)
        if offered_at is not None and now - offered_at >= OFFER_SECONDS:
            self._forget_offers(swarm_id)
            offered_at = None
        return offered_at is not None or now < self._offers_unknown_until

    def _clear(self) -> None:
        if self._offered:
            self._offers_unknown_until = time.monotonic() + OFFER_SECONDS
        for cache in (self._free_since, self._assigned, self._offered, self._last_offer_at):
            cache.clear()

    def _forget_offers(self, swarm_id: str) -> None:
        del self._offered[swarm_id], self._last_offer_at[swarm_id]

    def _forget_offer(self, worker: _Worker) -> None:
        swarm_id, name = worker
        workers = self._offered.get(swarm_id)
        if workers is not None:
            workers.discard(name)
            if not workers:
                self._forget_offers(swarm_id)
