"""Writes a snapshot in the text format of Prometheus, or of OpenMetrics with exemplars.

Nothing but /metrics imports the Prometheus client, which takes 40 ms.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate
from typing import Final

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector
from prometheus_client.samples import Exemplar as ClientExemplar
from prometheus_client.utils import floatToGoString

from shiftboss.server.metrics.catalogue import CATALOGUE, PREFIX
from shiftboss.server.metrics.snapshot import Snapshot
from shiftboss.store.monitoring.measures import Measure
from shiftboss.system.histogram import Histogram

Labels = tuple[str, ...]
Values = Mapping[Labels, float]

MICRO: Final = 1_000_000
_HISTOGRAMS: Final = (
    Measure.DISPATCH_WAIT,
    Measure.DELIVERY_WAIT,
    Measure.VERIFICATION,
    Measure.CI_WAIT,
    Measure.LANDING_WAIT,
)


def render(snapshot: Snapshot, accept: str) -> tuple[bytes, str]:
    """The text, and its content type, in the form that the reader accepts."""
    registry = CollectorRegistry()
    registry.register(_Snapshot(snapshot))
    ProcessCollector(registry=registry)
    encode, content_type = choose_encoder(accept)
    return encode(registry), content_type


class _Snapshot(Collector):
    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterator[Metric]:
        snapshot = self._snapshot
        yield from _database(snapshot)
        yield from _work(snapshot)
        yield from _store(snapshot)
        yield from _server(snapshot)


def _database(snapshot: Snapshot) -> Iterator[Metric]:
    """A figure that could not be read is missing: an old one would look like a new one."""
    counts = snapshot.database.counts
    yield _gauge("database_up", {(): counts is not None})
    if counts is None:
        return
    yield _gauge("tasks", _by_name(counts.tasks))
    yield _gauge("queue_ready_tasks", {(): counts.ready_tasks})
    yield _gauge("open_swarms", {(): counts.open_swarms})
    yield _gauge("leases", {("live",): counts.live_leases, ("expired",): counts.expired_leases})
    yield _gauge("open_claims", {(): counts.open_claims})
    yield _gauge("oldest_claim_age_seconds", {(): counts.oldest_claim_age_ms / 1000})
    yield _gauge("ci_pending_commits", {(): counts.pending_ci})
    yield _gauge("waiting_for_person", _by_name(counts.waiting_for_person))


def _work(snapshot: Snapshot) -> Iterator[Metric]:
    measures = snapshot.measures
    yield _counter("events", _by_name(measures.events))
    for measure in _HISTOGRAMS:
        seconds = measures.seconds.items()
        found = {_labels(label): each for (of, label), each in seconds if of is measure}
        yield _histogram(measure.value, found)
    ended = _sums(snapshot, Measure.ATTEMPTS_ENDED)
    yield _counter("attempts_ended", ended)
    expired = {kind: ended[f"{kind}_expired",] for kind in ("lease", "offer")}
    yield _counter("leases_expired", _by_name(expired))
    yield _counter("verdicts", _sums(snapshot, Measure.VERDICTS))
    yield _counter("failed_checks", _sums(snapshot, Measure.FAILED_CHECKS))
    yield _counter("usage_tokens", _sums(snapshot, Measure.TOKENS))
    yield _counter("usage_dollars", {(): measures.sums[Measure.MICRODOLLARS, ""] / MICRO})


def _store(snapshot: Snapshot) -> Iterator[Metric]:
    measures = snapshot.measures
    yield _histogram("store_transaction_seconds", {(): measures.transaction_seconds})
    yield _histogram("store_batch_wait_seconds", {(): measures.batch_wait_seconds})
    yield _histogram("store_batch_use_cases", {(): measures.batch_use_cases})
    yield _counter("store_refused_batches", {(): measures.refused_batches})


def _server(snapshot: Snapshot) -> Iterator[Metric]:
    yield _counter("http_requests", snapshot.requests)
    yield _gauge("parked_polls", {(): snapshot.parked_polls})
    yield _gauge("event_streams", {(): snapshot.event_streams})
    yield _gauge("open_connections", {(): snapshot.open_connections})
    duties = snapshot.duties.items()
    yield _counter("duty_runs", {(name,): duty.runs for name, duty in duties})
    yield _counter("duty_failures", {(name,): duty.failures for name, duty in duties})
    ages = {(name,): duty.seconds_since_success for name, duty in duties}
    yield _gauge(
        "duty_seconds_since_success", {name: age for name, age in ages.items() if age is not None}
    )
    yield _gauge("effects_waiting", {(): snapshot.effects_waiting})
    yield _counter("effect_failures", _by_name(snapshot.effect_failures))
    yield _counter("notification_attempts", _by_name(snapshot.notification_attempts))
    yield _counter("trace_spans", _by_name(snapshot.spans))
    yield _counter("trace_export_failures", {(): snapshot.span_failures})
    yield _counter("evidence_process_starts", {(): snapshot.evidence_starts})
    yield _gauge("ready", {(): snapshot.database.is_ready})
    yield _gauge("problems", {(name,): 1 for name in sorted(snapshot.database.problems)})
    yield _gauge("leader", {(): snapshot.leads})
    build = InfoMetricFamily(f"{PREFIX}build", CATALOGUE["build"].meaning)
    build.add_metric((), {"version": snapshot.version, "store": snapshot.store})
    yield build


def _sums(snapshot: Snapshot, measure: Measure) -> dict[Labels, float]:
    sums = snapshot.measures.sums.items()
    return {(label,): value for (of, label), value in sums if of is measure}


def _labels(label: str) -> Labels:
    return (label,) if label else ()


def _by_name(values: Mapping[str, float]) -> dict[Labels, float]:
    return {(name,): value for name, value in sorted(values.items())}


def _gauge(name: str, values: Values) -> Metric:
    metric = CATALOGUE[name]
    family = GaugeMetricFamily(f"{PREFIX}{name}", metric.meaning, labels=metric.labels)
    for labels, value in values.items():
        family.add_metric(labels, float(value))
    return family


def _counter(name: str, values: Values) -> Metric:
    metric = CATALOGUE[name]
    family = CounterMetricFamily(f"{PREFIX}{name}", metric.meaning, labels=metric.labels)
    for labels, value in values.items():
        family.add_metric(labels, float(value))
    return family


def _histogram(name: str, values: Mapping[Labels, Histogram]) -> Metric:
    metric = CATALOGUE[name]
    family = HistogramMetricFamily(f"{PREFIX}{name}", metric.meaning, labels=metric.labels)
    for labels, histogram in values.items():
        family.add_metric(labels, list(_buckets(histogram)), histogram.total)
    return family


def _buckets(
    histogram: Histogram,
) -> Iterator[tuple[str, float] | tuple[str, float, ClientExemplar]]:
    """Each counts everything up to its bound."""
    bounds = [*map(floatToGoString, histogram.bounds), "+Inf"]
    for number, (bound, count) in enumerate(zip(bounds, accumulate(histogram.counts), strict=True)):
        exemplar = histogram.exemplars.get(number)
        if exemplar is None:
            yield bound, count
        else:
            labels = {"trace_id": exemplar.trace_id}
            yield bound, count, ClientExemplar(labels, exemplar.value, None)
