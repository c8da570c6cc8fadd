"""What a store and its use cases have done since the start of the server, in numbers.

A use case may run more than once, so it counts nothing by itself: it notes a `Measurement` in its
transaction (`tx.measure`), and the store counts it after the commit. The numbers are added up once
per batch, on the thread that has committed it, under a lock that nobody else holds for long.

Every server counts its own commits alone, so the sum over the servers of a database counts each
once.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from shiftboss.protocol.events import Event
from shiftboss.system.histogram import Histogram

# From one millisecond to half a minute: what a commit, and the wait for one, may take.
_COMMIT_SECONDS: Final = (
    *(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0),
)
# From milliseconds to days: what people and machines wait for.
_WAIT_SECONDS: Final = (
    *(0.005, 0.025, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14_400.0, 86_400.0),
)
_USE_CASES: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


class Measure(StrEnum):
    """What use cases measure. Those that end in `_seconds` are histograms, the others are sums."""

    DISPATCH_WAIT = "dispatch_wait_seconds"
    DELIVERY_WAIT = "delivery_wait_seconds"
    VERIFICATION = "verification_seconds"
    CI_WAIT = "ci_wait_seconds"
    LANDING_WAIT = "landing_wait_seconds"
    VERDICTS = "verdicts"
    FAILED_CHECKS = "failed_checks"
    ATTEMPTS_ENDED = "attempts_ended"
    TOKENS = "tokens"
    MICRODOLLARS = "microdollars"

    @property
    def is_histogram(self) -> bool:
        return self.value.endswith("_seconds")


# Figures that are there before anything was measured: a rate is right from the first one on.
_LABELS: Final = {
    Measure.DISPATCH_WAIT: ("",),
    Measure.DELIVERY_WAIT: ("",),
    Measure.LANDING_WAIT: ("",),
    Measure.VERIFICATION: ("accepted", "refused"),
    Measure.CI_WAIT: ("passed", "failed"),
    Measure.VERDICTS: ("accepted", "refused"),
    Measure.TOKENS: ("input", "output", "cached"),
    Measure.MICRODOLLARS: ("",),
    Measure.ATTEMPTS_ENDED: ("done", "failed", "lease_expired", "offer_expired"),
}


class Measurement(NamedTuple):
    """`label` is one of a few fixed words. `trace_id` is that of the task."""

    measure: Measure
    value: float
    label: str = ""
    trace_id: str | None = None


class StoreMeasures:
    """Read it through `copy`: the threads of the store go on counting."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.transaction_seconds = Histogram(_COMMIT_SECONDS)
        self.batch_wait_seconds = Histogram(_COMMIT_SECONDS)
        self.batch_use_cases = Histogram(_USE_CASES)
        self.refused_batches = 0
        # SQLite: the size of a write-ahead log that a reader keeps from being cut back; or 0.
        self.log_bytes_held = 0
        self.events: Counter[str] = Counter()
        self.sums: defaultdict[tuple[Measure, str], float] = defaultdict(float)
        self.seconds: dict[tuple[Measure, str], Histogram] = {}
        for measure, labels in _LABELS.items():
            for label in labels:
                if measure.is_histogram:
                    self.seconds[measure, label] = Histogram(_WAIT_SECONDS)
                else:
                    self.sums[measure, label] = 0

    def note_batch(
        self,
        use_cases: int,
        events: Sequence[Event],
        measurements: Iterable[Measurement],
        seconds: float,
        waited_seconds: float,
    ) -> None:
        with self._lock:
            self.transaction_seconds.observe(seconds)
            self.batch_wait_seconds.observe(waited_seconds)
            self.batch_use_cases.observe(use_cases)
            counts = self.events
            for event in events:
                counts[event.kind] += 1
            for measurement in measurements:
                self._add(measurement)

    def note_refusal(self) -> None:
        with self._lock:
            self.refused_batches += 1

    def _add(self, measurement: Measurement) -> None:
        """No value is below zero: a corrected report of usage may be, and a counter never falls."""
        measure, value, label, trace_id = measurement
        histogram = self.seconds.get((measure, label))
        if histogram is not None:
            histogram.observe(max(value, 0.0), trace_id)
        else:
            self.sums[measure, label] += max(value, 0)

    def copy(self) -> StoreMeasures:
        twin = StoreMeasures()
        with self._lock:
            twin.transaction_seconds = self.transaction_seconds.copy()
            twin.batch_wait_seconds = self.batch_wait_seconds.copy()
            twin.batch_use_cases = self.batch_use_cases.copy()
            twin.refused_batches = self.refused_batches
            twin.log_bytes_held = self.log_bytes_held
            twin.events, twin.sums = self.events.copy(), self.sums.copy()
            twin.seconds = {key: each.copy() for key, each in self.seconds.items()}
        return twin
