"""Sends spans to an OpenTelemetry collector, over OTLP/HTTP.

The variables of OpenTelemetry configure it (`OTEL_EXPORTER_OTLP_ENDPOINT` and so on). Its packages
are an extra, and take a third of a second to import: only a server that exports traces does. The
exporter blocks, so it has a thread of its own, which holds up nobody else.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from shiftboss import __version__
from shiftboss.errors import ShiftbossError
from shiftboss.rules.traces.span import Span

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExporter

log = logging.getLogger(__name__)

SERVICE: Final = "shiftboss"
_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_PROTOCOL: Final = "http/protobuf"
_DELAY: Final = "OTEL_BSP_SCHEDULE_DELAY"
_BATCH: Final = "OTEL_BSP_MAX_EXPORT_BATCH_SIZE"
_SAMPLER: Final = "OTEL_TRACES_SAMPLER"
_RATIO: Final = "OTEL_TRACES_SAMPLER_ARG"
DEFAULT_DELAY_MS: Final = 5_000.0
DEFAULT_BATCH: Final = 512.0
_NANOSECONDS: Final = 1_000_000


class CannotTrace(ShiftbossError):
    code = "cannot_trace"
    title = "Traces cannot be exported"


def otlp_sink(environment: Mapping[str, str], *, required: bool) -> OtlpSink | None:
    """None if traces are off. Raises CannotTrace if they are `required` and cannot be exported;
    otherwise the log says so: a shell may have the variables for other programs."""
    if not _is_on(environment, required=required):
        return None
    try:
        return _sink(environment)
    except CannotTrace as error:
        if required:
            raise
        log.warning("there are no traces: %s; %s", error.detail, error.hint)
        return None


def _is_on(environment: Mapping[str, str], *, required: bool) -> bool:
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    if environment.get("OTEL_TRACES_EXPORTER", "").strip().lower() == "none":
        return False
    return required or any(environment.get(name) for name in _ENDPOINTS)


def _sink(environment: Mapping[str, str]) -> OtlpSink:
    protocol = next((environment[name] for name in _PROTOCOLS if environment.get(name)), _PROTOCOL)
    if protocol != _PROTOCOL:
        raise CannotTrace(
            f"the protocol {protocol} is not spoken",
            field="traces",
            hint=f"set {_PROTOCOLS[0]}={_PROTOCOL}, and the endpoint to the port for it",
        )
    delay_ms = _number(environment, _DELAY, DEFAULT_DELAY_MS)
    batch = _number(environment, _BATCH, DEFAULT_BATCH)
    is_sampled = _sampler(environment)
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ImportError as error:
        raise CannotTrace(
            "the packages of OpenTelemetry are not installed",
            field="traces",
            hint="install them with `pip install 'shiftboss[otel]'`",
        ) from error
    try:
        exporter = OTLPSpanExporter()
    except (ValueError, OSError) as error:
        raise CannotTrace(
            f"the settings of the exporter are wrong: {error}",
            field="traces",
            hint="check the variables that begin with OTEL_EXPORTER_OTLP_",
        ) from error
    return OtlpSink(exporter, delay_ms / 1000, max(int(batch), 1), is_sampled)


def _number(environment: Mapping[str, str], name: str, default: float) -> float:
    given = environment.get(name, "").strip()
    try:
        number = float(given or default)
    except ValueError:
        number = math.nan
    if not (math.isfinite(number) and number >= 0):
        raise CannotTrace(f"{name} is not a number: {given}", field="traces", hint=f"unset {name}")
    return number


def _sampler(environment: Mapping[str, str]) -> Callable[[int], bool]:
    """Decides by the trace id, so all spans of a task have the same answer, after a restart too."""
    name = environment.get(_SAMPLER, "").strip().removeprefix("parentbased_") or "always_on"
    shares = {"always_on": 1.0, "always_off": 0.0, "traceidratio": 1.0}
    if name not in shares:
        raise CannotTrace(
            f"there is no sampler {name}",
            field="traces",
            hint=f"set {_SAMPLER} to one of {', '.join(shares)}",
        )
    share = _number(environment, _RATIO, 1.0) if name == "traceidratio" else shares[name]
    bound = round(min(share, 1.0) * 2**64)
    return lambda trace_id: trace_id % 2**64 < bound


class OtlpSink:
    """See `SpanSink`."""

    def __init__(
        self,
        exporter: SpanExporter,
        delay_seconds: float,
        batch: int,
        is_sampled: Callable[[int], bool],
    ) -> None:
        from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource

        self.delay_seconds = delay_seconds
        self._exporter = exporter
        self._batch = batch
        self.is_sampled = is_sampled
        # OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES come on top of the defaults.
        named = Resource({SERVICE_NAME: SERVICE, SERVICE_VERSION: __version__})
        own = Resource.create()
        if str(own.attributes[SERVICE_NAME]).startswith("unknown_service"):
            own = own.merge(Resource({SERVICE_NAME: SERVICE}))
        self._resource = named.merge(own)
        self._thread = ThreadPoolExecutor(1, "traces")

    async def send(self, spans: Sequence[Span]) -> bool:
        sampled = [span for span in spans if self.is_sampled(int(span.trace_id, 16))]
        loop = asyncio.get_running_loop()
        for start in range(0, len(sampled), self._batch):
            batch = sampled[start : start + self._batch]
            if not await loop.run_in_executor(self._thread, self._export, batch):
                return False
        return True

    def _export(self, spans: Sequence[Span]) -> bool:
        from opentelemetry.sdk.trace.export import SpanExportResult

        result = self._exporter.export([self._readable(span) for span in spans])
        return result is SpanExportResult.SUCCESS

    def _readable(self, span: Span) -> ReadableSpan:
        from opentelemetry.sdk.trace import ReadableSpan
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope
        from opentelemetry.trace import SpanContext, Status, StatusCode, TraceFlags

        def context(span_id: str) -> SpanContext:
            return SpanContext(
                int(span.trace_id, 16),
                int(span_id, 16),
                is_remote=False,
                trace_flags=TraceFlags(TraceFlags.SAMPLED),
            )

        return ReadableSpan(
            span.name,
            context(span.span_id),
            None if span.parent_id is None else context(span.parent_id),
            self._resource,
            attributes=dict(span.attributes),
            status=Status(StatusCode.UNSET if span.error is None else StatusCode.ERROR, span.error),
            start_time=span.start_ms * _NANOSECONDS,
            end_time=span.end_ms * _NANOSECONDS,
            instrumentation_scope=InstrumentationScope(SERVICE, __version__),
        )

    def close(self) -> None:
        """Ends a wait of the exporter for a collector that does not answer."""
        self._exporter.shutdown()
        self._thread.shutdown(wait=False, cancel_futures=True)
