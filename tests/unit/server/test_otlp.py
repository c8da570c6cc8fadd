"""When traces are exported, and why not."""

from __future__ import annotations

import logging
import subprocess
import sys

import pytest

from shiftboss.server.otlp import CannotTrace, otlp_sink

pytestmark = pytest.mark.requirement("OWN-08")

ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}


def test_nothing_is_exported_without_a_collector() -> None:
    assert otlp_sink({}, required=False) is None


@pytest.mark.parametrize(
    "off", [{"OTEL_SDK_DISABLED": "true"}, {"OTEL_TRACES_EXPORTER": "none"}], ids=str
)
def test_the_usual_variables_turn_traces_off(off: dict[str, str]) -> None:
    assert otlp_sink({**ENDPOINT, **off}, required=True) is None


def test_a_server_without_the_extra_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with pytest.raises(CannotTrace) as refused:
        otlp_sink(ENDPOINT, required=True)
    assert refused.value.hint == "install them with `pip install 'shiftboss[otel]'`"
    with caplog.at_level(logging.WARNING):
        assert otlp_sink(ENDPOINT, required=False) is None
    assert "pip install 'shiftboss[otel]'" in caplog.text


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
        ("OTEL_BSP_SCHEDULE_DELAY", "soon"),
        ("OTEL_TRACES_SAMPLER", "sometimes"),
        ("OTEL_TRACES_SAMPLER_ARG", "half"),
    ],
)
def test_settings_that_cannot_be_followed_are_refused(name: str, value: str) -> None:
    sampler = {"OTEL_TRACES_SAMPLER": "traceidratio"} if name.endswith("ARG") else {}
    with pytest.raises(CannotTrace) as refused:
        otlp_sink({**ENDPOINT, **sampler, name: value}, required=True)
    assert value in refused.value.detail


def test_a_sampler_takes_its_share_of_the_tasks() -> None:
    half = {"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.5"}
    sink = otlp_sink({**ENDPOINT, **half}, required=True)
    assert sink is not None
    try:
        assert sink.is_sampled(2**63 - 1)
        assert not sink.is_sampled(2**63)
    finally:
        sink.close()


def test_a_server_without_traces_does_not_load_them() -> None:
    loaded = "import sys, shiftboss.server.run; print('opentelemetry' in sys.modules)"
    result = subprocess.run(
        [sys.executable, "-c", loaded], capture_output=True, text=True, timeout=60, check=True
    )
    assert result.stdout == "False\n"
