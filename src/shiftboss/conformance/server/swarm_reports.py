"""Document 000: the four reports of a packet, the counter, retries and the status."""

from __future__ import annotations

from typing import Any, Final

from shiftboss.conformance.checks import Broken, CheckList
from shiftboss.conformance.server.harness import NOT_FOUND, ServerHarness
from shiftboss.conformance.shapes import TEXT, UTC_TIME, expect

REPORTS: Final[CheckList[ServerHarness]] = CheckList()

COMMIT: Final = "abc1234567"
FINAL_COMMIT: Final = "def5678901"
RECOVERABLE: Final = ("network_error", "rate_limit", "test_flake", "dependency_timeout")
NOT_RECOVERABLE: Final = ("test_failure", "build_failure", "merge_conflict", "invalid_manifest")
# Two retries, exponential from 30 seconds; the third error is final.
RETRIES: Final = (30, 60, None)


def registration(packet_id: int = 1, **changes: Any) -> dict[str, Any]:
    return {
        "packet_id": packet_id,
        "packet_name": f"backend-api-{packet_id}",
        "tasks_total": 10,
        "worktree": "/path/to/worktree",
    } | changes


def progress(number: int, **changes: Any) -> dict[str, Any]:
    return {
        "packet_id": 1,
        "task_id": f"task-{number}",
        "task_name": "Implement authentication",
        "status": "completed",
        "tasks_completed": number,
        "tasks_total": 10,
        "commit": COMMIT,
    } | changes


def completion(packet_id: int = 1, **changes: Any) -> dict[str, Any]:
    return {
        "packet_id": packet_id,
        "final_commit": FINAL_COMMIT,
        "tests_passed": True,
        "review_passed": True,
    } | changes


def error(error_type: str, task_id: str = "task-6", **changes: Any) -> dict[str, Any]:
    return {
        "packet_id": 1,
        "task_id": task_id,
        "error_type": error_type,
        "message": "Authentication tests failed with 3 failures",
        "recoverable": error_type in RECOVERABLE,
    } | changes


@REPORTS.add("create", "000", "SW-13", "POST /swarm/create creates a swarm")
def create(harness: ServerHarness) -> None:
    swarm_id = harness.new_swarm()
    expect(harness.status(swarm_id), {"swarm_id": swarm_id}, "the status")
    chosen = harness.calls.post("/swarm/create", {}).document
    expect(chosen, {"swarm_id": TEXT}, "the answer to create without an id")


@REPORTS.add("register", "000", "SW-01", "register answers the document's JSON")
def register(harness: ServerHarness) -> None:
    swarm_id = harness.new_swarm()
    expected = {
        "registered": True,
        "packet_id": 1,
        "packet_name": "backend-api-1",
        "swarm_id": swarm_id,
        "registered_at": UTC_TIME,
    }
    answer = harness.accepted(swarm_id, "register", registration())
    expect(answer, expected, "the answer", exact=True)


@REPORTS.add("register-again", "000", "SW-10", "Registering again is idempotent: the same answer")
def register_again(harness: ServerHarness) -> None:
    swarm_id = harness.new_swarm()
    first = harness.accepted(swarm_id, "register", registration())
    harness.accepted(swarm_id, "progress", progress(1))
    again = harness.accepted(swarm_id, "register", registration())
    if again != first:
        raise Broken(f"the second answer is {again}, the first was {first}")
    _expect_completed(harness, swarm_id, 1)


@REPORTS.add("progress", "000", "SW-01", "progress answers the document's JSON")
def reports_progress(harness: ServerHarness) -> None:
    swarm_id = _registered(harness)
    expected = {
        "acknowledged": True,
        "packet_id": 1,
        "task_id": "task-1",
        "tasks_completed": 1,
        "tasks_total": 10,
        "timestamp": UTC_TIME,
    }
    answer = harness.accepted(swarm_id, "progress", progress(1))
    expect(answer, expected, "the answer", exact=True)
    without_commit = {key: value for key, value in progress(2).items() if key != "commit"}
    harness.accepted(swarm_id, "progress", without_commit)


@REPORTS.add("counter", "000", "SW-07", "tasks_completed counts completed tasks, and never down")
def counter(harness: ServerHarness) -> None:
    swarm_id = _registered(harness)
    for number in (1, 2, 3):
        harness.accepted(swarm_id, "progress", progress(number))
    harness.report(swarm_id, "progress", progress(4, status="started", tasks_completed=3))
    _expect_completed(harness, swarm_id, 3)
    harness.report(swarm_id, "progress", progress(9, tasks_completed=1))
    _expect_completed(harness, swarm_id, 3)


@REPORTS.add("repeat", "000", "SW-07", "A report that is delivered twice counts once")
def repeat(harness: ServerHarness) -> None:
    swarm_id = _registered(harness)
    for _ in range(2):
        harness.accepted(swarm_id, "progress", progress(1))
    _expect_completed(harness, swarm_id, 1)
    first = harness.report(swarm_id, "progress", progress(2), key="report-2").document
    again = harness.report(swarm_id, "progress", progress(2), key="report-2").document
    if first != again:
        raise Broken(f"the repeat under one key got {again}, and first {first}")
    _expect_completed(harness, swarm_id, 2)


@REPORTS.add("complete", "000", "SW-01", "complete answers true counts, and tells the last packet")
def complete(harness: ServerHarness) -> None:
    swarm_id = harness.new_swarm()
    for packet_id in (1, 2, 3):
        harness.accepted(swarm_id, "register", registration(packet_id))
    for packet_id, remaining in ((1, 2), (2, 1), (3, 0)):
        expected = {
            "acknowledged": True,
            "packet_id": packet_id,
            "final_commit": FINAL_COMMIT,
            "completed_at": UTC_TIME,
            "swarm_complete": remaining == 0,
            "remaining_workers": remaining,
        }
        answer = harness.accepted(swarm_id, "complete", completion(packet_id))
        expect(answer, expected, f"the answer to packet {packet_id}", exact=True)


@REPORTS.add("error", "000", "SW-01", "error answers the document's JSON")
def reports_error(harness: ServerHarness) -> None:
    swarm_id = _registered(harness)
    expected = {
        "acknowledged": True,
        "packet_id": 1,
        "error_logged": True,
        "retry_scheduled": False,
        "retry_in_seconds": None,
    }
    answer = harness.accepted(swarm_id, "error", error("test_failure"))
    expect(answer, expected, "the answer", exact=True)


@REPORTS.add(
    "error-types", "000", "SW-08", "The document's error types decide whether it is retried"
)
def error_types(harness: ServerHarness) -> None:
    for error_type in (*RECOVERABLE, *NOT_RECOVERABLE):
        is_recoverable = error_type in RECOVERABLE
        swarm_id = _registered(harness)
        # The flag of the report says the opposite: the table of the document decides.
        body = error(error_type, recoverable=not is_recoverable)
        answer = harness.accepted(swarm_id, "error", body)
        expect(answer, {"retry_scheduled": is_recoverable}, f"the answer to {error_type}")


@REPORTS.add("retries", "000", "SW-08", "Two retries, exponential from 30 s, then none")
def retries(harness: ServerHarness) -> None:
    swarm_id = _registered(harness)
    for number, seconds in enumerate(RETRIES, 1):
        answer = harness.accepted(swarm_id, "error", error("network_error"))
        expected = {"retry_scheduled": seconds is not None, "retry_in_seconds": seconds}
        expect(answer, expected, f"the answer to error {number} of a task")


@REPORTS.add("status", "000", "SW-12", "The status has true counts of workers and their progress")
def status(harness: ServerHarness) -> None:
    swarm_id = harness.new_swarm()
    for packet_id in (1, 2, 3):
        harness.accepted(swarm_id, "register", registration(packet_id))
    harness.accepted(swarm_id, "progress", progress(1))
    harness.accepted(swarm_id, "complete", completion(2))
    harness.accepted(swarm_id, "error", error("build_failure", packet_id=3))
    counts = {"workers_registered": 3, "workers_complete": 1, "workers_failed": 1}
    shown = harness.status(swarm_id)
    expect(shown, {**counts, "ready_for_merge": False}, "the status")
    workers = {worker["packet_id"]: worker for worker in shown.get("workers", [])}
    expect(workers.get(1, {}), {"tasks_completed": 1, "tasks_total": 10}, "worker 1 of the status")


@REPORTS.add("unknown-swarm", "000", "SW-13", "An unknown swarm is 404, with a body that says so")
def unknown_swarm(harness: ServerHarness) -> None:
    unknown = "conformance-there-is-no-such-swarm"
    answers = [
        harness.report(unknown, "register", registration()),
        harness.report(unknown, "progress", progress(1)),
        harness.report(unknown, "complete", completion()),
        harness.report(unknown, "error", error("test_failure")),
        harness.calls.get(f"/swarm/{unknown}/status"),
        harness.calls.get(f"/swarm/{unknown}/events"),
    ]
    for answered in answers:
        if answered.status != NOT_FOUND or unknown not in str(answered.document):
            raise Broken(f"the answer is {answered.status} {answered.document}")


def _registered(harness: ServerHarness) -> str:
    swarm_id = harness.new_swarm()
    harness.accepted(swarm_id, "register", registration())
    return swarm_id


def _expect_completed(harness: ServerHarness, swarm_id: str, count: int) -> None:
    workers = harness.status(swarm_id).get("workers") or [{}]
    expect(workers[0], {"tasks_completed": count}, "the worker in the status")
