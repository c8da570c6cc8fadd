"""What a collector of OpenTelemetry was sent, decoded with its own protocol."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.receiver import Receiver


class CollectedSpan(NamedTuple):
    """Ids are in hexadecimal, times in milliseconds. `service` is that of its resource."""

    name: str
    trace_id: str
    span_id: str
    parent_id: str
    start_ms: int
    end_ms: int
    attributes: Mapping[str, Any]
    is_error: bool
    service: str


def collected(receiver: Receiver) -> list[CollectedSpan]:
    """Each span once. A span that came again has to be the same."""
    spans: dict[str, CollectedSpan] = {}
    for received in list(receiver.received):
        for span in _decoded(received.body):
            known = spans.setdefault(span.span_id, span)
            assert known == span, f"two spans of one id: {known} and {span}"
    return sorted(spans.values(), key=lambda span: (span.start_ms, span.end_ms))


def _decoded(body: bytes) -> list[CollectedSpan]:
    request = ExportTraceServiceRequest.FromString(body)
    return [
        CollectedSpan(
            name=span.name,
            trace_id=span.trace_id.hex(),
            span_id=span.span_id.hex(),
            parent_id=span.parent_span_id.hex(),
            start_ms=span.start_time_unix_nano // 1_000_000,
            end_ms=span.end_time_unix_nano // 1_000_000,
            attributes=_values(span.attributes),
            is_error=span.status.code == span.status.STATUS_CODE_ERROR,
            service=_values(resource.resource.attributes)["service.name"],
        )
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]


def _values(attributes: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in attributes}
