"""A cache of the workers that are known to be free, so that their polls need no query.

A worker that reported its task done is free until an event says otherwise. The hub sees every such
event, those of other servers a little later: then it wakes the poll. Most polls follow right after
such a report.
"""

from __future__ import annotations

import time
from typing import Any, Final, NamedTuple

from shiftboss.protocol.events import Event, EventKind
from shiftboss.rules.tasks.leases import OFFER_MS

# When there are more, the cache is emptied and polls ask the store.
WORKERS_MAX: Final = 100_000
# When there are more at the start, all offers are taken as unknown.
OFFERS_READ_MAX: Final = 1_000
# A poll that comes later asks the store, because the swarm may have been deleted.
VALID_SECONDS: Final = 60.0
# An offer has expired by then, or its swarm was deleted.
OFFER_SECONDS: Final = 2 * OFFER_MS / 1000

_Worker = tuple[str, str]


class _Free(NamedTuple):
    since: float  # by the monotonic clock
    # Its report has asked the store for the next task, and for an offer to take over.
    has_polled: bool = False


class FreeWorkers:
    def __init__(self) -> None:
        self._free: dict[_Worker, _Free] = {}
        # The task of the last assignment event, if no other event of the worker followed it.
        self._assigned: dict[_Worker, str] = {}
        # The workers of a swarm with an offer that no poll had received when it was made, if no
        # other event of the worker followed it, and the time of the last such offer. Another
        # worker's poll may take them over.
        self._offered: dict[str, set[str]] = {}
        self._last_offer_at: dict[str, float] = {}
        # Offers may be unknown until then, because the cache was emptied.
        self._offers_unknown_until = 0.0

    def on_event(self, event: Event, data: dict[str, Any]) -> None:
        """Update the cache from an event that names its worker."""
        worker = (event.swarm_id, data["worker"])
        assigned = self._assigned.pop(worker, None)
        self._free.pop(worker, None)
        self._forget_offer(worker)
        if len(self._free) + len(self._assigned) + len(self._last_offer_at) >= WORKERS_MAX:
            self._clear()
        if event.kind == EventKind.TASK_ASSIGNED.value:
            self._assigned[worker] = data["bead_id"]
            if not data.get("received", True):
                self._note_offer(event.swarm_id, data["worker"])
        elif event.kind == EventKind.TASK_DONE.value and assigned == data["bead_id"]:
            self._free[worker] = _Free(time.monotonic())

    def know_offers(self, offered: list[_Worker]) -> None:
        """The workers of offers of the time before the first event, `OFFERS_READ_MAX` at most."""
        if len(offered) >= OFFERS_READ_MAX:
            self.forget()
            return
        for swarm_id, worker in offered:
            self._note_offer(swarm_id, worker)

    def on_empty_poll(self, swarm_id: str, worker: str) -> None:
        """The transaction of the worker's report has found nothing for it to do next."""
        free = self._free.get((swarm_id, worker))
        if free is not None:
            self._free[swarm_id, worker] = free._replace(has_polled=True)

    def forget(self) -> None:
        """Events of other servers may have been missed."""
        self._clear()
        self._offers_unknown_until = time.monotonic() + OFFER_SECONDS

    def take(self, swarm_id: str, worker: str) -> bool:
        """Whether the worker is known to be free and there is no offer to take over. The entry is
        used up: the next poll asks the store."""
        free = self._free.pop((swarm_id, worker), None)
        if free is None or self._has_offers(swarm_id):
            return False
        now = time.monotonic()
        knows_offers = free.has_polled or now >= self._offers_unknown_until
        return knows_offers and now - free.since < VALID_SECONDS

    def _has_offers(self, swarm_id: str) -> bool:
        offered_at = self._last_offer_at.get(swarm_id)
        if offered_at is None:
            return False
        if time.monotonic() - offered_at >= OFFER_SECONDS:
            self._forget_offers(swarm_id)
            return False
        return True

    def _clear(self) -> None:
        if self._offered:
            self._offers_unknown_until = time.monotonic() + OFFER_SECONDS
        for cache in (self._free, self._assigned, self._offered, self._last_offer_at):
            cache.clear()

    def _note_offer(self, swarm_id: str, worker: str) -> None:
        self._offered.setdefault(swarm_id, set()).add(worker)
        self._last_offer_at[swarm_id] = time.monotonic()

    def _forget_offers(self, swarm_id: str) -> None:
        del self._offered[swarm_id], self._last_offer_at[swarm_id]

    def _forget_offer(self, worker: _Worker) -> None:
        swarm_id, name = worker
        workers = self._offered.get(swarm_id)
        if workers is not None:
            workers.discard(name)
            if not workers:
                self._forget_offers(swarm_id)
