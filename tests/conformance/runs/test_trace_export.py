"""From the events of a task to a collector of OpenTelemetry, over restarts and failures."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from shiftboss.coordinator.coordinator import Coordinator
from shiftboss.coordinator.duties import trace_export
from shiftboss.coordinator.duties.trace_export import TraceExport
from shiftboss.protocol.bus import (
    AckRequest,
    AddTaskRequest,
    DoneRequest,
    PollRequest,
    RegisterWorkerRequest,
    TaskRequest,
)
from shiftboss.protocol.fields import INTEGER_MAX
from shiftboss.protocol.runs import TOKENS_MAX, AgentRun, ReportUsageRequest
from shiftboss.server.otlp import otlp_sink
from shiftboss.store.open_store import store_at
from tests.collected_spans import collected
from tests.receiver import Receiver
from tests.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("OWN-08")]

ENDPOINT = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"


class Setup:
    def __init__(self, address: str, collector: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
        self.address = address
        self.collector = collector
        self.environment = {ENDPOINT: collector.url, "OTEL_BSP_SCHEDULE_DELAY": "1"}
        for name, value in self.environment.items():
            monkeypatch.setenv(name, value)

    @asynccontextmanager
    async def server(self, *, traces: bool = True) -> AsyncIterator[Coordinator]:
        sink = otlp_sink(self.environment, required=True) if traces else None
        coordinator = Coordinator(store_at(self.address), verifies=False, spans=sink)
        await coordinator.start()
        try:
            if traces:
                record = traces_of(coordinator).record
                await eventually(lambda: record.seconds_since_success is not None, "it traces")
            yield coordinator
        finally:
            await coordinator.stop()

    def names(self) -> list[str]:
        return [span.name for span in collected(self.collector)]


@pytest.fixture
async def setup(store_address: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Setup]:
    monkeypatch.setattr(trace_export, "FIRST_PAUSE_SECONDS", 0.01)
    with Receiver() as collector:
        yield Setup(store_address, collector, monkeypatch)


async def begin(coordinator: Coordinator, task_id: str = "t1") -> None:
    await coordinator.bus.add_task(AddTaskRequest(bead_id=task_id, title="Secret title"))
    await coordinator.bus.register_worker(RegisterWorkerRequest(name="w"))
    await coordinator.bus.submit_task(TaskRequest(bead_id=task_id))
    await coordinator.bus.poll_task(PollRequest(name="w", timeout_ms=30_000))
    await coordinator.bus.ack_task(AckRequest(name="w", bead_id=task_id))


async def finish(coordinator: Coordinator, task_id: str = "t1") -> None:
    await coordinator.bus.worker_done(DoneRequest(bead_id=task_id))


def traces_of(coordinator: Coordinator) -> TraceExport:
    assert coordinator.traces is not None
    return coordinator.traces


async def test_a_collector_that_fails_for_a_while_gets_every_span(setup: Setup) -> None:
    setup.collector.reactions = [400, 400]
    async with setup.server() as coordinator:
        await begin(coordinator)
        await finish(coordinator)
        await eventually(lambda: "attempt" in setup.names(), "all of them")
        traces = traces_of(coordinator)
        await eventually(lambda: traces.exported == 2, "it knows that they were taken")
        assert (traces.failures, traces.dropped) == (2, 0)
    assert setup.names() == ["submit", "attempt"]
    assert b"Secret title" not in b"".join(each.body for each in setup.collector.received)


async def test_an_agent_that_lies_about_its_run_holds_up_no_traces(setup: Setup) -> None:
    async with setup.server() as coordinator:
        await begin(coordinator)
        run = AgentRun(agent="liar", model="m" * 200, duration_ms=INTEGER_MAX, ended="ended")
        report = ReportUsageRequest(
            bead_id="t1", name="w", epoch=1, process=100_000, output_tokens=TOKENS_MAX, run=run
        )
        await coordinator.runs.report_usage(report)
        await finish(coordinator)
        await eventually(lambda: "attempt" in setup.names(), "what followed the lie")
        assert traces_of(coordinator).failures == 0
    assert sorted(setup.names()) == ["attempt", "invoke_agent liar", "submit"]


async def test_the_next_server_exports_what_the_last_one_left(setup: Setup) -> None:
    async with setup.server():
        pass
    async with setup.server(traces=False) as crashed:
        await begin(crashed)
        await finish(crashed)
    async with setup.server():
        await eventually(lambda: len(setup.names()) == 2, "it reads them from the store")


async def test_a_server_that_stops_exports_what_is_left(setup: Setup) -> None:
    setup.environment["OTEL_BSP_SCHEDULE_DELAY"] = "60000"
    async with setup.server() as coordinator:
        await begin(coordinator)
        await finish(coordinator)
        is_alone = not coordinator.store.shared
    if is_alone:  # otherwise it is left to the next leader
        assert len(setup.names()) == 2
    async with setup.server():
        await eventually(lambda: len(setup.names()) == 2, "none is lost")


async def test_spans_that_are_sent_again_are_the_same(setup: Setup) -> None:
    """As after a crash between the export and its note."""
    async with setup.server() as coordinator:
        await begin(coordinator)
        await finish(coordinator)
    async with setup.server(traces=False) as coordinator:
        await coordinator.store.write(lambda tx: tx.put_traced_until("default", 2), "")
    sent = len(setup.collector.received)
    async with setup.server():
        await eventually(lambda: len(setup.collector.received) > sent, "some come again")
    assert len(setup.names()) == 2, "`collected` compares those of the same id"


async def test_traces_begin_when_they_are_turned_on(setup: Setup) -> None:
    """What was over before is no news; an attempt that goes on has its whole length."""
    async with setup.server(traces=False) as coordinator:
        await begin(coordinator)
        began = (await coordinator.store.read(lambda tx: tx.events_after("default", 0, 100)))[-1]
    async with setup.server() as coordinator:
        await finish(coordinator)
        await eventually(setup.names, "its end")
    (attempt,) = collected(setup.collector)
    assert attempt.name == "attempt"
    assert attempt.start_ms <= began.at_ms <= attempt.end_ms


async def test_what_a_collector_never_takes_is_dropped_and_counted(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace_export, "HELD_SECONDS_MAX", -1)
    setup.collector.reactions = [400]
    async with setup.server() as coordinator:
        await begin(coordinator)
        traces = traces_of(coordinator)
        await eventually(lambda: traces.dropped > 0, "they do not hold up what follows")
        await finish(coordinator)
        await eventually(lambda: "attempt" in setup.names(), "what follows")


async def test_a_restored_backup_is_behind_what_was_exported(setup: Setup) -> None:
    async with setup.server() as coordinator:
        await begin(coordinator)
    async with setup.server(traces=False) as coordinator:
        await coordinator.store.write(lambda tx: tx.put_traced_until("default", 1000), "")
    async with setup.server() as coordinator:
        await finish(coordinator)
        await eventually(lambda: "attempt" in setup.names(), "its spans come with the next events")
