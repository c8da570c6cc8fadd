"""The loop of a bus worker: register, poll, acknowledge, execute, report, poll again."""

from __future__ import annotations

from typing import Final

from shiftboss.conformance.checks import Broken, CheckList
from shiftboss.conformance.exchanges import Exchange
from shiftboss.conformance.faults import Fault
from shiftboss.conformance.worker.bus_harness import BusHarness, is_heartbeat
from shiftboss.conformance.worker.harness import HEARTBEAT_SECONDS, WORKER

LOOP: Final[CheckList[BusHarness]] = CheckList()

REASON: Final = 'Build failed: "main" is red'
EMPTY_POLLS: Final = 2
SETTLE_SECONDS: Final = 0.3
EMPTY_POLL_MS: Final = 100
BEATS: Final = 3


@LOOP.add("registers", "001", "BUS-02", "It registers under its name before anything else")
def registers(harness: BusHarness) -> None:
    harness.start_bus_worker()
    first = harness.next_of("register_worker", 0, "register_worker")
    calls = [
        exchange
        for exchange in harness.proxy.exchanges
        if not exchange.operation.startswith("mcp:")
    ]
    if calls[0] is not first:
        raise Broken(f"its first call is {calls[0].operation}, not register_worker")
    _expect_own(harness, first)


@LOOP.add("polls", "001", "BUS-03", "It waits for tasks with one long poll at a time")
def polls(harness: BusHarness) -> None:
    position = harness.idle()
    poll = harness.proxy.exchanges[position - 1]
    # Its next request, if there is one, is about to come.
    harness.proxy.wait(lambda: None, SETTLE_SECONDS)
    requests = [
        exchange for exchange in harness.proxy.exchanges if exchange.operation == "poll_task"
    ]
    _expect_own(harness, requests[-1])
    still_open = [exchange for exchange in requests if exchange.is_open]
    if len(still_open) > 1:
        raise Broken(f"{len(still_open)} polls of one worker are open at once: {poll.line()}")


@LOOP.add("polls-again", "001", "BUS-03", "After an empty poll it polls again, and registers once")
def polls_again(harness: BusHarness) -> None:
    harness.idle()
    fault = harness.proxy.inject(Fault("poll_task", poll_ms=EMPTY_POLL_MS, times=EMPTY_POLLS))
    position = harness.wire_position()
    harness.completes()  # the parked poll gets it, the next ones are empty
    harness.wait("polls after empty polls", lambda: len(fault.met) == EMPTY_POLLS or None)
    harness.idle()
    if harness.since(position, "register_worker"):
        raise Broken("it registered again, although nobody had forgotten it")


@LOOP.add("acknowledges", "001", "BUS-05", "It acknowledges a task before it works on it")
def acknowledges(harness: BusHarness) -> None:
    position = harness.idle()
    bead_id = harness.submit("done")
    harness.report_on(bead_id, position)
    order = [
        exchange.operation
        for exchange in harness.proxy.exchanges[position:]
        if exchange.bead_id == bead_id
    ]
    if order[0] != "ack_task":
        raise Broken(f"the first call about the task is {order[0]}, not ack_task")
    _expect_own(harness, harness.ack_of(bead_id, position))


@LOOP.add("reports-done", "001", "BUS-06", "It reports a finished task with worker_done, once")
def reports_done(harness: BusHarness) -> None:
    position = harness.idle()
    bead_id = harness.completes()
    harness.idle()
    _expect_one_report(harness, bead_id, position)
    harness.wait_for_status(bead_id, "done")


@LOOP.add("reports-failed", "001", "BUS-06", "It reports a failure with the reason, once")
def reports_failed(harness: BusHarness) -> None:
    position = harness.idle()
    bead_id = harness.submit(f"fail {REASON}")
    report = harness.report_on(bead_id, position)
    if report.outcome != "failed":
        raise Broken(f"a task that fails was reported {report.outcome}")
    if report.reason != REASON:
        raise Broken(f"the reason is {report.reason!r}, not {REASON!r}")
    harness.idle()
    _expect_one_report(harness, bead_id, position)


@LOOP.add("polls-after-task", "001", "BUS-06", "After a task it polls for the next one")
def polls_after_task(harness: BusHarness) -> None:
    harness.idle()
    for _ in range(3):
        harness.completes()
    harness.idle()


@LOOP.add("unknown-task", "001", "BUS-06", "It fails a task that it does not understand")
def unknown_task(harness: BusHarness) -> None:
    position = harness.idle()
    report = harness.report_on(harness.submit("dance the tango"), position)
    if report.outcome != "failed" or not report.reason:
        raise Broken(f"it was reported {report.outcome}, with the reason {report.reason!r}")


@LOOP.add("heartbeats", "002", "WP-05", "While a task takes long, it sends heartbeats")
def heartbeats(harness: BusHarness) -> None:
    bead_id, position, go = harness.start_waiting()

    def enough() -> list[Exchange] | None:
        beats = [
            exchange for exchange in harness.proxy.exchanges[position:] if is_heartbeat(exchange)
        ]
        return beats if len(beats) >= BEATS else None

    beats = harness.wait(f"{BEATS} heartbeats ({HEARTBEAT_SECONDS:g} s apart)", enough)
    if harness.reports_of(bead_id, position):
        raise Broken("the task was reported before its file was there")
    go.touch()
    report = harness.report_on(bead_id, position)
    sender = beats[0].arguments.get("name") or beats[0].message.get("worker_id")
    if sender != WORKER:
        raise Broken(f"the heartbeat is of {sender!r}, not of {WORKER}")
    if report.outcome != "done":
        raise Broken(f"the task was reported failed: {report.reason}")
    harness.idle()


def _expect_own(harness: BusHarness, exchange: Exchange) -> None:
    for name, expected in (("name", WORKER), ("swarm_id", harness.swarm)):
        if exchange.arguments.get(name) != expected:
            value = exchange.arguments.get(name)
            raise Broken(f"{exchange.operation}: {name} is {value!r}, not {expected!r}")


def _expect_one_report(harness: BusHarness, bead_id: str, position: int) -> None:
    reports = harness.reports_of(bead_id, position)
    if len(reports) != 1:
        names = ", ".join(report.exchange.operation for report in reports)
        raise Broken(f"{len(reports)} reports on one task: {names}")
