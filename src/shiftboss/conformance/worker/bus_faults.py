"""Checks of a bus worker when the server, the network or its task fails."""

from __future__ import annotations

import threading
from typing import Final

from shiftboss.conformance.checks import Broken, CheckList, NotOffered
from shiftboss.conformance.exchanges import Exchange
from shiftboss.conformance.faults import Fault, broken_page, busy, lost_answer
from shiftboss.conformance.worker.bus_harness import OTHER_WORKER, BusHarness
from shiftboss.conformance.worker.harness import WORKER

FAULTS: Final[CheckList[BusHarness]] = CheckList()

RETRY_AFTER_SECONDS: Final = 1
# Clocks and rounding: a worker may be a little early.
EARLY_SECONDS: Final = 0.1


@FAULTS.add("busy-503", "004", "CC-15", "After 503 it waits as Retry-After asks, and tries again")
def busy_503(harness: BusHarness) -> None:
    _expect_patience(harness, "worker_done", 503)


@FAULTS.add("busy-429", "004", "CC-15", "After 429 it waits as Retry-After asks, and tries again")
def busy_429(harness: BusHarness) -> None:
    _expect_patience(harness, "ack_task", 429)


@FAULTS.add("bad-gateway", "004", "CC-15", "An answer that is not JSON is a reason to try again")
def bad_gateway(harness: BusHarness) -> None:
    harness.idle()
    fault = harness.proxy.inject(broken_page("poll_task"))
    harness.completes()
    harness.wait("a poll that got 502", lambda: bool(fault.met) or None)
    harness.completes()


@FAULTS.add("poll-lost", "001", "BUS-08", "It polls again when the connection of a poll is lost")
def poll_lost(harness: BusHarness) -> None:
    harness.idle()
    fault = harness.proxy.inject(Fault("poll_task", cut="before"))
    harness.completes()
    harness.wait("a poll that was cut off", lambda: bool(fault.met) or None)
    harness.completes()


@FAULTS.add("delivered-again", "001", "BUS-03", "A task whose delivery was lost is done once")
def delivered_again(harness: BusHarness) -> None:
    fault = lost_answer("poll_task", when=lambda poll: bool(poll.given_task))
    position = harness.idle_before(fault)
    bead_id = harness.submit("done")
    harness.report_on(bead_id, position)
    harness.idle()
    done = [report for report in harness.reports_of(bead_id, position) if report.exchange.is_final]
    if len(done) != 1:
        raise Broken(f"{len(done)} reports on one task")


@FAULTS.add("report-repeated", "001", "BUS-06", "It repeats a report whose answer was lost")
def report_repeated(harness: BusHarness) -> None:
    _lose_report(harness)


@FAULTS.add("same-key", "own", "SW-07", "A repeated report has the Idempotency-Key of the first")
def same_key(harness: BusHarness) -> None:
    first, *repeats = _lose_report(harness)
    if first.key is None:
        raise NotOffered("it sends no Idempotency-Key")
    for repeat in repeats:
        if repeat.key != first.key:
            raise Broken(
                f"the key of the repeat is {repeat.key!r}, that of the first {first.key!r}"
            )


@FAULTS.add("ack-refused", "001", "BUS-05", "A refused ack means: no work, no report, poll again")
def ack_refused(harness: BusHarness) -> None:
    hold = threading.Event()
    fault = Fault("poll_task", hold=hold, when=lambda one: bool(one.given_task))
    position = harness.idle_before(fault)
    bead_id = harness.submit("done")
    harness.wait("a delivery to the worker", lambda: bool(fault.met) or None)
    harness.operator("cancel_task", bead_id=bead_id)
    hold.set()
    harness.next_of("ack_task", position, f"ack_task for {bead_id}", lambda one: one.is_final)
    harness.completes()
    if harness.reports_of(bead_id, position):
        raise Broken("it reported a task whose acknowledgement was refused")


@FAULTS.add("cancelled", "own", "BUS-09", "When its task is cancelled, it continues with others")
def cancelled(harness: BusHarness) -> None:
    bead_id, position, go = harness.start_waiting()
    harness.operator("cancel_task", bead_id=bead_id)
    go.touch()
    harness.completes()
    if harness.task(bead_id)["status"] != "cancelled":
        raise Broken(f"the cancelled task is {harness.task(bead_id)['status']}")
    _expect_no_insisting(harness, bead_id, position)


@FAULTS.add("lost-task", "own", "BUS-09", "It does not finish a task that went to another worker")
def lost_task(harness: BusHarness) -> None:
    bead_id, position, go = harness.start_waiting()
    harness.hand_over(bead_id)
    go.touch()
    try:
        harness.completes()
        task = harness.task(bead_id)
        if (task["status"], task["worker"]) != ("active", OTHER_WORKER):
            raise Broken(
                f"{OTHER_WORKER} held the task, and it is {task['status']} by a report of {WORKER} "
                "that does not name its epoch"
            )
        _expect_no_insisting(harness, bead_id, position)
    finally:
        harness.calls.post("/bus/cancel_task", {"swarm_id": harness.swarm, "bead_id": bead_id})


@FAULTS.add("restart", "001", "BUS-08", "It survives a restart of the server during a task")
def restart(harness: BusHarness) -> None:
    bead_id, position, go = harness.start_waiting()
    with harness.server_down():
        go.touch()
        harness.wait(
            "a call while the server is down", lambda: harness.lost_since(position) or None
        )
    harness.report_on(bead_id, position)
    harness.wait_for_status(bead_id, "done")
    harness.completes()


@FAULTS.add("forgotten", "001", "BUS-08", "It registers again with a server that forgot it")
def forgotten(harness: BusHarness) -> None:
    harness.idle()
    harness.proxy.is_down = True
    with harness.server_down():
        harness.server.forget()
    harness.prepare()
    position = harness.wire_position()
    harness.proxy.is_down = False
    harness.next_of("register_worker", position, "register_worker after the restart")
    harness.completes()


def _expect_patience(harness: BusHarness, operation: str, status: int) -> None:
    position = harness.idle()
    fault = harness.proxy.inject(busy(operation, status, retry_after=RETRY_AFTER_SECONDS))
    bead_id = harness.submit("done")
    report = harness.report_on(bead_id, position)
    if report.outcome != "done":
        raise Broken(f"the task was reported failed after a {status}: {report.reason}")
    refused = fault.met[0]
    repeats = [
        exchange
        for exchange in harness.since(position, operation)
        if exchange.bead_id == bead_id and exchange.at > refused.at
    ]
    waited = repeats[0].at - (refused.answered_at or refused.at)
    if waited < RETRY_AFTER_SECONDS - EARLY_SECONDS:
        raise Broken(
            f"it repeated {operation} after {waited:.2f} s, and Retry-After was "
            f"{RETRY_AFTER_SECONDS} s"
        )
    harness.idle()


def _lose_report(harness: BusHarness) -> list[Exchange]:
    """The server has the report, the worker does not know. Returns all of its reports."""
    position = harness.idle()
    fault = harness.proxy.inject(lost_answer("worker_done"))
    bead_id = harness.submit("done")
    harness.wait("worker_done", lambda: bool(fault.met) or None)
    harness.report_on(bead_id, position)
    reports = harness.reports_of(bead_id, position)
    if any(report.outcome != "done" for report in reports):
        raise Broken("after a lost answer it reported the task as failed")
    harness.wait_for_status(bead_id, "done")
    harness.completes()
    return [report.exchange for report in reports]


def _expect_no_insisting(harness: BusHarness, bead_id: str, position: int) -> None:
    """One report may cross the loss; when it is refused, that is the end."""
    refused = [
        report for report in harness.reports_of(bead_id, position) if report.exchange.is_final
    ]
    if len(refused) > 1:
        names = ", ".join(report.exchange.operation for report in refused)
        raise Broken(f"it keeps reporting a task that is not its own: {names}")
