"""Counts what is open, over all swarms."""

from __future__ import annotations

from typing import Final

from shiftboss.store.monitoring.port import LiveCounts, TracedSwarm
from shiftboss.store.transaction_part import TransactionPart

# No figure is counted any further: the time that a look takes has a bound.
COUNTED_MAX: Final = 200_000
SWARMS_MAX: Final = 10_000
# What is done or cancelled is history, and events count it.
LIVE_STATUSES: Final = ("open", "queued", "active", "failed")
_FOR_PERSONS: Final = {
    "question": "count_open_questions",
    "scope_request": "count_open_scope_requests",
    "review": "count_open_reviews",
}


class MonitoringRows(TransactionPart):
    """Implements `shiftboss.store.monitoring.port.MonitoringTransaction`."""

    def live_counts(self, now_ms: int) -> LiveCounts:
        claims = self._session.fetch_one("count_open_claims", {"limit": COUNTED_MAX})
        open_claims, oldest_ms = claims or (0, None)
        return LiveCounts(
            tasks={status: self._count("count_tasks", status=status) for status in LIVE_STATUSES},
            ready_tasks=self._count("count_ready_tasks"),
            open_swarms=self._count("count_open_swarms"),
            live_leases=self._count("count_live_leases", now_ms=now_ms),
            expired_leases=self._count("count_expired_leases", now_ms=now_ms),
            open_claims=open_claims,
            oldest_claim_age_ms=0 if oldest_ms is None else max(now_ms - oldest_ms, 0),
            pending_ci=self._count("count_pending_ci"),
            waiting_for_person={kind: self._count(query) for kind, query in _FOR_PERSONS.items()},
        )

    def traced_swarms(self, limit: int) -> list[TracedSwarm]:
        rows = self._session.fetch_all("traced_swarms", {"limit": limit})
        return [TracedSwarm(*row) for row in rows]

    def begin_traces(self, now_ms: int) -> bool:
        return self._change("begin_traces", {"now_ms": now_ms}) == 1

    def traced_until(self, swarm_id: str) -> int | None:
        row = self._session.fetch_one("traced_until", {"swarm_id": swarm_id})
        return None if row is None else int(row[0])

    def put_traced_until(self, swarm_id: str, event_id: int) -> None:
        self._write("put_traced_until", {"swarm_id": swarm_id, "event_id": event_id})

    def _count(self, query: str, **parameters: object) -> int:
        limits = {"limit": COUNTED_MAX, "swarms": SWARMS_MAX}
        row = self._session.fetch_one(query, limits | parameters)
        return 0 if row is None or row[0] is None else int(row[0])
