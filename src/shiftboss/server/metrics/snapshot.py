"""What /metrics shows, read at one moment.

What belongs to the event loop is read there, in microseconds. The database is read by one of the
store's readers, at most every few seconds, however often it is asked.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from shiftboss import __version__
from shiftboss.coordinator.coordinator import Coordinator
from shiftboss.errors import LeadershipLost, StoreDamaged, StoreUnavailable
from shiftboss.server.metrics.request_metrics import RequestCounts
from shiftboss.store.monitoring.measures import StoreMeasures
from shiftboss.store.monitoring.port import LiveCounts

# How long the answers of the database are used again.
CACHE_SECONDS: Final = 5.0
DATABASE_SECONDS_MAX: Final = 3.0


class DutyNumbers(NamedTuple):
    runs: int
    failures: int
    seconds_since_success: float | None


class DatabaseFacts(NamedTuple):
    """`counts` is None if the database could not be read."""

    counts: LiveCounts | None
    is_ready: bool
    problems: frozenset[str]


class Snapshot(NamedTuple):
    database: DatabaseFacts
    measures: StoreMeasures
    requests: Mapping[tuple[str, ...], int]
    parked_polls: int
    event_streams: int
    open_connections: int
    duties: Mapping[str, DutyNumbers]
    effects_waiting: int
    effect_failures: Mapping[str, int]
    notification_attempts: Mapping[str, int]
    spans: Mapping[str, int]
    span_failures: int
    evidence_starts: int
    leads: bool
    store: str
    version: str = __version__


class Monitor:
    """Other parts of the server that know a number put a function for it here."""

    def __init__(
        self, coordinator: Coordinator, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.requests = RequestCounts()
        self.open_connections: Callable[[], int] = _none
        self.evidence_starts: Callable[[], int] = _none
        self._coordinator = coordinator
        self._clock = clock
        self._reading = asyncio.Lock()
        self._read_at = float("-inf")
        self._database = DatabaseFacts(None, is_ready=False, problems=frozenset())

    async def snapshot(self) -> Snapshot:
        database = await self._database_facts()
        coordinator = self._coordinator
        return Snapshot(
            database=database,
            measures=coordinator.store.measures.copy(),
            requests=self.requests.by_result(),
            parked_polls=coordinator.hub.parked_polls,
            event_streams=coordinator.hub.event_streams,
            open_connections=self.open_connections(),
            duties={
                record.name: DutyNumbers(record.runs, record.failures, record.seconds_since_success)
                for record in coordinator.deployment.duty_records
            },
            effects_waiting=coordinator.after_commit.waiting,
            effect_failures=dict(coordinator.after_commit.failures),
            notification_attempts=dict(coordinator.notifications.notifier.attempts),
            spans={
                "exported": 0 if coordinator.traces is None else coordinator.traces.exported,
                "dropped": 0 if coordinator.traces is None else coordinator.traces.dropped,
            },
            span_failures=0 if coordinator.traces is None else coordinator.traces.failures,
            evidence_starts=self.evidence_starts(),
            leads=self._leads(),
            store=coordinator.store.name,
        )

    async def _database_facts(self) -> DatabaseFacts:
        """Several who ask at once share one look."""
        async with self._reading:
            if self._clock() - self._read_at >= CACHE_SECONDS:
                self._database = await self._read_database()
                self._read_at = self._clock()
            return self._database

    async def _read_database(self) -> DatabaseFacts:
        deployment = self._coordinator.deployment
        reasons = await deployment.reasons()
        warnings = await deployment.warnings()
        problems = frozenset(problem.name for problem in (*reasons, *warnings))
        return DatabaseFacts(await self._counts(), not reasons, problems)

    async def _counts(self) -> LiveCounts | None:
        store, now_ms = self._coordinator.store, self._coordinator.clock()
        if isinstance(store.failing(), StoreDamaged):
            return None  # a file that was deleted can still be read, and nobody has it any more
        try:
            async with asyncio.timeout(DATABASE_SECONDS_MAX):
                return await store.read(lambda tx: tx.live_counts(now_ms))
        except (StoreUnavailable, TimeoutError):
            return None

    def _leads(self) -> bool:
        try:
            self._coordinator.store.leader_term()
        except LeadershipLost:
            return False
        return True


def _none() -> int:
    return 0
