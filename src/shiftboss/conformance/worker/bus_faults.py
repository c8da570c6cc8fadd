"""What a bus worker does when the server, the network or its task fails."""

from __future__ import annotations

import threading
from typing import Final

from shiftboss.conformance.checks import Broken, CheckList, NotOffered
from shiftboss.conformance.exchanges import Exchange
from shiftboss.conformance.faults import Fault, broken_page, busy, lost_answer
from shiftboss.conformance.worker.bench import WORKER
from shiftboss.conformance.worker.bus_bench import OTHER_WORKER, BusBench

FAULTS: Final[CheckList[BusBench]] = CheckList()

RETRY_AFTER_SECONDS: Final = 1
# Clocks and rounding: a worker may be a little early.
EARLY_SECONDS: Final = 0.1


@FAULTS.add("busy-503", "004", "CC-15", "After 503 it waits as Retry-After asks, and tries again")
def busy_503(bench: BusBench) -> None:
    _expect_patience(bench, "worker_done", 503)


@FAULTS.add("busy-429", "004", "CC-15", "After 429 it waits as Retry-After asks, and tries again")
def busy_429(bench: BusBench) -> None:
    _expect_patience(bench, "ack_task", 429)


@FAULTS.add("bad-gateway", "004", "CC-15", "An answer that is not JSON is a reason to try again")
def bad_gateway(bench: BusBench) -> None:
    bench.idle()
    fault = bench.proxy.inject(broken_page("poll_task"))
    bench.completes()
    bench.wait("a poll that got 502", lambda: bool(fault.met) or None)
    bench.completes()


@FAULTS.add("poll-lost", "001", "BUS-08", "It polls again when the connection of a poll is lost")
def poll_lost(bench: BusBench) -> None:
    bench.idle()
    fault = bench.proxy.inject(Fault("poll_task", cut="before"))
    bench.completes()
    bench.wait("a poll that was cut off", lambda: bool(fault.met) or None)
    bench.completes()


@FAULTS.add("delivered-again", "001", "BUS-03", "A task whose delivery was lost is done once")
def delivered_again(bench: BusBench) -> None:
    fault = lost_answer("poll_task", when=lambda poll: bool(poll.given_task))
    position = bench.idle_before(fault)
    bead_id = bench.submit("done")
    bench.report_on(bead_id, position)
    bench.idle()
    done = [report for report in bench.reports_of(bead_id, position) if report.exchange.is_final]
    if len(done) != 1:
        raise Broken(f"{len(done)} reports on one task")


@FAULTS.add("report-repeated", "001", "BUS-06", "It repeats a report whose answer was lost")
def report_repeated(bench: BusBench) -> None:
    _lose_report(bench)


@FAULTS.add("same-key", "own", "SW-07", "A repeated report has the Idempotency-Key of the first")
def same_key(bench: BusBench) -> None:
    first, *repeats = _lose_report(bench)
    if first.key is None:
        raise NotOffered("it sends no Idempotency-Key")
    for repeat in repeats:
        if repeat.key != first.key:
            raise Broken(
                f"the key of the repeat is {repeat.key!r}, that of the first {first.key!r}"
            )


@FAULTS.add("ack-refused", "001", "BUS-05", "A refused ack means: no work, no report, poll again")
def ack_refused(bench: BusBench) -> None:
    hold = threading.Event()
    fault = Fault("poll_task", hold=hold, when=lambda one: bool(one.given_task))
    position = bench.idle_before(fault)
    bead_id = bench.submit("done")
    bench.wait("a delivery to the worker", lambda: bool(fault.met) or None)
    bench.operator("cancel_task", bead_id=bead_id)
    hold.set()
    bench.next_of("ack_task", position, f"ack_task for {bead_id}", lambda one: one.is_final)
    bench.completes()
    if bench.reports_of(bead_id, position):
        raise Broken("it reported a task whose acknowledgement was refused")


@FAULTS.add("cancelled", "own", "BUS-09", "When its task is cancelled, it goes on with others")
def cancelled(bench: BusBench) -> None:
    bead_id, position, go = bench.start_waiting()
    bench.operator("cancel_task", bead_id=bead_id)
    go.touch()
    bench.completes()
    if bench.task(bead_id)["status"] != "cancelled":
        raise Broken(f"the cancelled task is {bench.task(bead_id)['status']}")
    _expect_no_insisting(bench, bead_id, position)


@FAULTS.add("lost-task", "own", "BUS-09", "It does not finish a task that went to another worker")
def lost_task(bench: BusBench) -> None:
    bead_id, position, go = bench.start_waiting()
    bench.hand_over(bead_id)
    go.touch()
    try:
        bench.completes()
        task = bench.task(bead_id)
        if (task["status"], task["worker"]) != ("active", OTHER_WORKER):
            raise Broken(
                f"{OTHER_WORKER} held the task, and it is {task['status']} by a report of {WORKER} "
                "that does not name its epoch"
            )
        _expect_no_insisting(bench, bead_id, position)
    finally:
        bench.calls.post("/bus/cancel_task", {"swarm_id": bench.swarm, "bead_id": bead_id})


@FAULTS.add("restart", "001", "BUS-08", "It survives a restart of the server during a task")
def restart(bench: BusBench) -> None:
    bead_id, position, go = bench.start_waiting()
    with bench.server_down():
        go.touch()
        bench.wait("a call while the server is down", lambda: bench.lost_since(position) or None)
    bench.report_on(bead_id, position)
    bench.wait_for_status(bead_id, "done")
    bench.completes()


@FAULTS.add("forgotten", "001", "BUS-08", "It registers again with a server that forgot it")
def forgotten(bench: BusBench) -> None:
    bench.idle()
    bench.proxy.is_down = True
    with bench.server_down():
        bench.server.forget()
    bench.prepare()
    position = bench.wire_position()
    bench.proxy.is_down = False
    bench.next_of("register_worker", position, "register_worker after the restart")
    bench.completes()


def _expect_patience(bench: BusBench, operation: str, status: int) -> None:
    position = bench.idle()
    fault = bench.proxy.inject(busy(operation, status, retry_after=RETRY_AFTER_SECONDS))
    bead_id = bench.submit("done")
    report = bench.report_on(bead_id, position)
    if report.outcome != "done":
        raise Broken(f"the task was reported failed after a {status}: {report.reason}")
    refused = fault.met[0]
    repeats = [
        exchange
        for exchange in bench.since(position, operation)
        if exchange.bead_id == bead_id and exchange.at > refused.at
    ]
    waited = repeats[0].at - (refused.answered_at or refused.at)
    if waited < RETRY_AFTER_SECONDS - EARLY_SECONDS:
        raise Broken(
            f"it repeated {operation} after {waited:.2f} s, and Retry-After was "
            f"{RETRY_AFTER_SECONDS} s"
        )
    bench.idle()


def _lose_report(bench: BusBench) -> list[Exchange]:
    """The server has the report, the worker does not know. Returns all of its reports."""
    position = bench.idle()
    fault = bench.proxy.inject(lost_answer("worker_done"))
    bead_id = bench.submit("done")
    bench.wait("worker_done", lambda: bool(fault.met) or None)
    bench.report_on(bead_id, position)
    reports = bench.reports_of(bead_id, position)
    if any(report.outcome != "done" for report in reports):
        raise Broken("after a lost answer it reported the task as failed")
    bench.wait_for_status(bead_id, "done")
    bench.completes()
    return [report.exchange for report in reports]


def _expect_no_insisting(bench: BusBench, bead_id: str, position: int) -> None:
    """One report may cross the loss; when it is refused, that is the end."""
    refused = [report for report in bench.reports_of(bead_id, position) if report.exchange.is_final]
    if len(refused) > 1:
        names = ", ".join(report.exchange.operation for report in refused)
        raise Broken(f"it goes on reporting a task that is not its own: {names}")
