"""The reports of a packet worker and their checkpoint files."""

from __future__ import annotations

import re
from typing import Any, Final

from shiftboss.conformance.checks import Broken, CheckList
from shiftboss.conformance.exchanges import Exchange
from shiftboss.conformance.worker.packet_harness import (
    FINAL_COMMIT,
    PACKET_ID,
    PACKET_NAME,
    PLAIN_STEPS,
    Packet,
    PacketHarness,
)

REPORTS: Final[CheckList[PacketHarness]] = CheckList()

# Timezone-aware, in UTC.
TIMESTAMP: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(\+00:00|Z)")
BASE_MEMBERS: Final = frozenset(
    {"event", "timestamp", "packet_id", "packet_name", "tasks_completed", "tasks_total"}
)
CHECKPOINT_MEMBERS: Final = {
    "registered": BASE_MEMBERS,
    "progress": BASE_MEMBERS | {"task_id", "task_name", "status"},
    "complete": BASE_MEMBERS | {"final_commit", "tests_passed", "review_passed"},
    "error": BASE_MEMBERS | {"task_id", "error_type", "message", "recoverable"},
}
EVENT_OF: Final = {"register": "registered"}


@REPORTS.add("packet-registers", "000", "SW-01", "It registers first, with the document's members")
def packet_registers(harness: PacketHarness) -> None:
    packet = harness.plain
    first = _first(harness, packet)
    expected = {
        "packet_id": PACKET_ID,
        "packet_name": PACKET_NAME,
        "tasks_total": len(PLAIN_STEPS),
        "worktree": str(packet.worktree),
    }
    if first.operation != "register" or first.arguments != expected:
        raise Broken(f"its first report is {first.operation} {first.arguments}, not {expected}")


@REPORTS.add("packet-progress", "000", "SW-01", "It reports each task, in order, once completed")
def packet_progress(harness: PacketHarness) -> None:
    packet = harness.plain
    completed = [
        report for report in _progress(harness, packet) if report.get("status") == "completed"
    ]
    tasks = [report.get("task_id") for report in completed]
    expected = [step.split(" ", 1)[0] for step in packet.steps]
    if tasks != expected:
        raise Broken(f"it reported {tasks} completed, not {expected}")
    for report in completed:
        missing = {"packet_id", "task_id", "task_name", "status", "tasks_total"} - report.keys()
        if (
            missing
            or report["packet_id"] != PACKET_ID
            or report["tasks_total"] != len(packet.steps)
        ):
            raise Broken(f"a report of progress is wrong: {report}")


@REPORTS.add(
    "packet-counter", "000", "SW-07", "tasks_completed counts up by one per completed task"
)
def packet_counter(harness: PacketHarness) -> None:
    counted = 0
    for report in _progress(harness, harness.plain):
        counted += report.get("status") == "completed"
        if report.get("tasks_completed") != counted:
            raise Broken(
                f"tasks_completed is {report.get('tasks_completed')}, not {counted}: {report}"
            )


@REPORTS.add("packet-completes", "000", "SW-01", "It reports complete after its last task")
def packet_completes(harness: PacketHarness) -> None:
    packet = harness.plain
    last = _accepted(harness, packet)[-1]
    expected = {
        "packet_id": PACKET_ID,
        "final_commit": FINAL_COMMIT,
        "tests_passed": True,
        "review_passed": True,
    }
    if last.operation != "complete" or last.arguments != expected:
        raise Broken(f"its last report is {last.operation} {last.arguments}, not {expected}")


@REPORTS.add(
    "checkpoint-first", "000", "SW-04", "The checkpoint is on disk before the call is made"
)
def checkpoint_first(harness: PacketHarness) -> None:
    for exchange in _accepted(harness, harness.plain):
        event = EVENT_OF.get(exchange.operation, exchange.operation)
        noted = exchange.noted
        if noted is None:
            raise Broken(f"there was no checkpoint file when {exchange.operation} arrived")
        if noted.get("event") != event or not _agrees(noted, exchange):
            raise Broken(f"when {exchange.line()} arrived, the checkpoint was {noted}")


@REPORTS.add("checkpoint-fields", "000", "SW-05", "Checkpoints have the document's fields, in UTC")
def checkpoint_fields(harness: PacketHarness) -> None:
    for exchange in _accepted(harness, harness.plain):
        expect_checkpoint(exchange.noted or {}, len(PLAIN_STEPS))


@REPORTS.add("checkpoint-kept", "000", "SW-11", "The checkpoint stays until the swarm is complete")
def checkpoint_kept(harness: PacketHarness) -> None:
    checkpoint = harness.plain.checkpoint()
    if checkpoint is None or checkpoint.get("event") != "complete":
        raise Broken(f"another packet is not complete, and the checkpoint is {checkpoint}")


@REPORTS.add("checkpoint-removed", "000", "SW-11", "It is removed when the swarm is complete")
def checkpoint_removed(harness: PacketHarness) -> None:
    packet = harness.new_packet(["task-1 done"])
    harness.run(packet)
    harness.wait_for(packet, "complete")
    harness.wait_for_end()
    if packet.checkpoint() is not None:
        raise Broken("the swarm is complete, and the checkpoint file is still there")


def expect_checkpoint(checkpoint: dict[str, Any], tasks_total: int) -> None:
    event = str(checkpoint.get("event"))
    if checkpoint.keys() - {"commit"} != CHECKPOINT_MEMBERS.get(event, frozenset()):
        raise Broken(f"the checkpoint {event} has the members {sorted(checkpoint)}")
    if TIMESTAMP.fullmatch(str(checkpoint["timestamp"])) is None:
        raise Broken(f"the timestamp is {checkpoint['timestamp']!r}, not in UTC with its offset")
    identity = checkpoint["packet_id"], checkpoint["packet_name"], checkpoint["tasks_total"]
    if identity != (PACKET_ID, PACKET_NAME, tasks_total):
        raise Broken(f"the checkpoint is about another packet: {checkpoint}")


def _first(harness: PacketHarness, packet: Packet) -> Exchange:
    reports = harness.reports(packet)
    if not reports:
        raise Broken(f"it sent no report; {harness.ended() or 'it is running'}")
    return reports[0]


def _accepted(harness: PacketHarness, packet: Packet) -> list[Exchange]:
    accepted = harness.accepted(packet)
    if not accepted:
        raise Broken("none of its reports was accepted")
    return accepted


def _progress(harness: PacketHarness, packet: Packet) -> list[dict[str, Any]]:
    reports = [exchange.arguments for exchange in harness.accepted(packet, "progress")]
    if not reports:
        raise Broken("it reported no progress")
    return reports


def _agrees(checkpoint: dict[str, Any], exchange: Exchange) -> bool:
    sent = exchange.arguments
    names = ("task_id", "status", "tasks_completed", "final_commit", "error_type", "message")
    return all(checkpoint.get(name) == sent[name] for name in names if name in sent)
