"""Checks of a packet worker with errors, without a server, and after its own crash."""

from __future__ import annotations

from itertools import dropwhile
from pathlib import Path
from typing import Final

from shiftboss.conformance.checks import Broken, CheckList
from shiftboss.conformance.faults import busy, lost_answer
from shiftboss.conformance.worker.packet_harness import PACKET_ID, Packet, PacketHarness
from shiftboss.conformance.worker.packet_reports import expect_checkpoint

FAULTS: Final[CheckList[PacketHarness]] = CheckList()

FAILURE: Final = "Authentication tests failed with 3 failures"
# Not more than the pauses of a worker that doubles them: the rest is the worker's own patience.
BUSY_TIMES: Final = 2


@FAULTS.add("error-final", "000", "SW-08", "It reports test_failure as not recoverable")
def error_final(harness: PacketHarness) -> None:
    _expect_error(harness, "test_failure", is_recoverable=False)


@FAULTS.add("error-recoverable", "000", "SW-08", "It reports network_error as recoverable")
def error_recoverable(harness: PacketHarness) -> None:
    _expect_error(harness, "network_error", is_recoverable=True)


@FAULTS.add("server-down", "000", "SW-04", "Reports of the time without a server arrive, in order")
def server_down(harness: PacketHarness) -> None:
    packet = _start_until_second(harness)
    harness.proxy.is_down = True
    _go(packet)
    harness.wait("a report while the server is down", lambda: _lost(harness, packet) or None)
    harness.proxy.is_down = False
    _expect_all_once(harness, packet)


@FAULTS.add("goes-on", "000", "SW-04", "Without a server it continues to work", required=False)
def goes_on(harness: PacketHarness) -> None:
    packet = _start_until_second(harness)
    harness.proxy.is_down = True
    _go(packet)

    def is_past_second() -> bool | None:
        checkpoint = packet.checkpoint() or {}
        return True if checkpoint.get("task_id") == "task-3" or _is_complete(packet) else None

    harness.wait("work on the next task while the server is down", is_past_second)
    harness.proxy.is_down = False
    _expect_all_once(harness, packet)


@FAULTS.add("server-errors", "000", "SW-04", "Reports that got 503 arrive later, in order")
def server_errors(harness: PacketHarness) -> None:
    packet = _start_until_second(harness)
    harness.proxy.inject(busy("progress", 503, times=BUSY_TIMES))
    _go(packet)
    _expect_all_once(harness, packet)


@FAULTS.add("answer-lost", "000", "SW-07", "A report whose answer was lost is repeated unchanged")
def answer_lost(harness: PacketHarness) -> None:
    packet = _start_until_second(harness)
    fault = harness.proxy.inject(lost_answer("progress"))
    _go(packet)
    harness.wait("progress", lambda: bool(fault.met) or None)
    _expect_all_once(harness, packet)
    lost = fault.met[0]
    repeats = [
        report
        for report in harness.reports(packet, "progress")
        if report is not lost and report.arguments == lost.arguments
    ]
    if not repeats or repeats[0].key != lost.key:
        raise Broken(f"the report was not repeated with its key and content: {lost.line()}")


@FAULTS.add("recovers", "000", "SW-10", "Restarted after a crash, it continues where it stopped")
def recovers(harness: PacketHarness) -> None:
    packet = _start_until_second(harness)
    harness.stop_worker()
    crashed = harness.wire_position()
    harness.run(packet)
    _go(packet)
    _expect_all_once(harness, packet)
    reports = harness.reports(packet)
    known = {report.key for report in reports if report in harness.proxy.exchanges[:crashed]} - {
        None
    }
    # A report whose answer the crash has lost may be sent again first, under its key.
    later = list(
        dropwhile(
            lambda report: report.operation != "register" and report.key in known,
            (report for report in reports if report in harness.proxy.exchanges[crashed:]),
        )
    )
    if later[0].operation != "register":
        raise Broken(f"its first report after the restart is {later[0].operation}, not register")
    if any(report.arguments.get("task_id") == "task-1" for report in later):
        raise Broken("it did the first task again, although its checkpoint has it")


def _start_until_second(harness: PacketHarness) -> Packet:
    """A packet whose second task waits, and whose first was reported."""
    go = harness.folder / f"go-{harness.number()}"
    packet = harness.new_packet(
        ["task-1 done", f"task-2 wait {go}", "task-3 done"], with_other=True
    )
    harness.run(packet)

    def first_done() -> bool | None:
        return (
            any(
                report.arguments.get("status") == "completed" and report.is_delivered
                for report in harness.accepted(packet, "progress")
            )
            or None
        )

    harness.wait("progress of task-1", first_done)
    return packet


def _go(packet: Packet) -> None:
    """Let the second task end."""
    Path(packet.steps[1].split(" ", 2)[2]).touch()


def _lost(harness: PacketHarness, packet: Packet) -> bool:
    return any(not report.is_open and not report.is_delivered for report in harness.reports(packet))


def _is_complete(packet: Packet) -> bool:
    return (packet.checkpoint() or {}).get("event") == "complete"


def _expect_all_once(harness: PacketHarness, packet: Packet) -> None:
    """In the end the server knows what a worker without trouble would have told it."""
    harness.wait_for(packet, "complete")
    completed = [
        report.arguments["task_id"]
        for report in harness.accepted(packet, "progress")
        if report.arguments.get("status") == "completed"
    ]
    if completed != ["task-1", "task-2", "task-3"]:
        raise Broken(f"the tasks arrived as {completed}")
    view = harness.on_server(packet)
    if (view["status"], view["tasks_completed"]) != ("complete", 3):
        raise Broken(f"the server has {view['tasks_completed']} of 3 tasks, {view['status']}")


def _expect_error(harness: PacketHarness, error_type: str, *, is_recoverable: bool) -> None:
    packet = harness.new_packet([f"task-1 error {error_type} {FAILURE}", "task-2 done"])
    harness.run(packet)
    report = harness.wait_for(packet, "error")
    expected = {
        "packet_id": PACKET_ID,
        "task_id": "task-1",
        "error_type": error_type,
        "message": FAILURE,
        "recoverable": is_recoverable,
    }
    if report.arguments != expected:
        raise Broken(f"the report is {report.arguments}, not {expected}")
    checkpoint = report.noted or {}
    expect_checkpoint(checkpoint, 2)
    if checkpoint["event"] != "error" or checkpoint["recoverable"] is not is_recoverable:
        raise Broken(f"the checkpoint is {checkpoint}")
