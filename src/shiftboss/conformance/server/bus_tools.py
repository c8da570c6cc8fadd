"""Document 001: the tools of the bus, over MCP."""

from __future__ import annotations

import time
from typing import Final

from shiftboss.conformance.checks import Broken, CheckList, NotOffered
from shiftboss.conformance.server.harness import ServerHarness
from shiftboss.conformance.shapes import COUNT, NUMBER, TEXT, expect

TOOLS: Final[CheckList[ServerHarness]] = CheckList()

# The document's tools with their arguments.
ARGUMENTS: Final = {
    "register_worker": {"name"},
    "poll_task": {"name", "timeout_ms"},
    "submit_task": {"bead_id"},
    "ack_task": {"name", "bead_id"},
    "worker_done": {"bead_id"},
    "task_failed": {"bead_id", "reason"},
    "get_status": set[str](),
    "reset_worker": {"worker_name"},
    "retry_task": {"bead_id"},
}
SHORT_POLL_MS: Final = 300
WAKE_SECONDS_MAX: Final = 3.0


@TOOLS.add("tools", "001", "BUS-01", "MCP offers the nine tools with the document's arguments")
def tools(harness: ServerHarness) -> None:
    for name, arguments in ARGUMENTS.items():
        if name not in harness.tools:
            raise Broken(f"there is no tool {name}")
        schema = harness.tools[name].get("inputSchema") or {}
        missing = arguments - set(schema.get("properties") or {})
        demanded = set(schema.get("required") or ()) - arguments
        if missing or demanded:
            raise Broken(f"{name}: lacks {sorted(missing)}, demands {sorted(demanded)}")


@TOOLS.add("register-worker", "001", "BUS-02", "Registered, then Already registered")
def register_worker(harness: ServerHarness) -> None:
    bus = harness.bus()
    name = bus.name("z.ai1")
    for message in ("Registered", "Already registered"):
        expected = {"success": True, "worker": name, "message": message}
        expect(bus.do("register_worker", name=name), expected, "the answer")


@TOOLS.add(
    "unknown-worker", "001", "BUS-02", "A poll without registration gets the document's error"
)
def unknown_worker(harness: ServerHarness) -> None:
    bus = harness.bus()
    name = bus.name("nobody")
    answer = bus.refused("poll_task", name=name, timeout_ms=SHORT_POLL_MS)
    expected = f"Unknown worker: {name} - call register_worker first"
    expect(answer, {"error": expected}, "the answer")


@TOOLS.add("poll-timeout", "001", "BUS-03", "A poll blocks until timeout_ms, then says so")
def poll_timeout(harness: ServerHarness) -> None:
    bus = harness.bus()
    started = time.monotonic()
    answer = bus.poll(bus.worker("w"), SHORT_POLL_MS)
    expect(answer, {"task": None, "timeout": True}, "the answer")
    if time.monotonic() - started < SHORT_POLL_MS / 1000:
        raise Broken("the poll ended before its time")


@TOOLS.add("poll-woken", "001", "BUS-03", "A submit answers the parked poll of a worker at once")
def poll_woken(harness: ServerHarness) -> None:
    bus = harness.bus()
    (bead_id,), name = bus.add("a"), bus.worker("w")
    parked = bus.park(name)
    answer = bus.do("submit_task", bead_id=bead_id)
    submitted_at = time.monotonic()
    expect(answer, {"dispatched": True, "worker": name, "bead_id": bead_id}, "submit_task")
    task = parked.answer(harness.seconds).get("task") or {}
    expected = {"bead_id": bead_id, "title": f"Task {bead_id}", "assigned_at": NUMBER}
    expect(task, expected, "the task")
    if parked.ended_at - submitted_at > WAKE_SECONDS_MAX:
        raise Broken(f"the poll was answered {parked.ended_at - submitted_at:.1f} s later")


@TOOLS.add(
    "delivered-again", "001", "BUS-03", "A task that was not acknowledged is delivered again"
)
def delivered_again(harness: ServerHarness) -> None:
    bus = harness.bus()
    (bead_id,), name = bus.add("a"), bus.worker("w")
    bus.do("submit_task", bead_id=bead_id)
    for _ in range(2):
        expect(bus.poll(name).get("task") or {}, {"bead_id": bead_id}, "the task")
    expect(bus.worker_view(name) or {}, {"status": "pending"}, "the worker")


@TOOLS.add("submit-unknown", "001", "BUS-04", "A task that does not exist is not dispatched")
def submit_unknown(harness: ServerHarness) -> None:
    bus = harness.bus()
    bus.worker("w")
    answer = bus.refused("submit_task", bead_id=bus.name("no-such-task"))
    if answer.get("dispatched"):
        raise Broken(f"it was dispatched: {answer}")


@TOOLS.add("least-recently-used", "001", "BUS-04", "The least recently used worker gets the task")
def least_recently_used(harness: ServerHarness) -> None:
    bus = harness.bus()
    first, second = bus.worker("w1"), bus.worker("w2")
    order = []
    for bead_id in bus.add("a", "b", "c", "d"):
        name = str(bus.do("submit_task", bead_id=bead_id).get("worker"))
        order.append(name)
        bus.poll(name)
        bus.do("ack_task", name=name, bead_id=bead_id)
        bus.do("worker_done", bead_id=bead_id)
    if order != [first, second, first, second]:
        raise Broken(f"four tasks went to {order}")


@TOOLS.add("queue", "001", "BUS-04", "Without a free worker tasks queue, and are drained in order")
def queue(harness: ServerHarness) -> None:
    bus = harness.bus()
    first, second, third = bus.add("a", "b", "c")
    for position, bead_id in enumerate((first, second, third), 1):
        answer = bus.do("submit_task", bead_id=bead_id)
        expect(answer, {"dispatched": False, "position": position}, "submit_task without a worker")
    name = bus.worker("w")
    for bead_id in (first, second, third):
        expect(bus.poll(name).get("task") or {}, {"bead_id": bead_id}, "the next task")
        bus.do("ack_task", name=name, bead_id=bead_id)
        bus.do("worker_done", bead_id=bead_id)


@TOOLS.add("ack", "001", "BUS-05", "ack_task answers the document's JSON, and the worker executes")
def ack(harness: ServerHarness) -> None:
    bus = harness.bus()
    (bead_id,), name = bus.add("a"), bus.worker("w")
    bus.do("submit_task", bead_id=bead_id)
    bus.poll(name)
    answer = bus.do("ack_task", name=name, bead_id=bead_id)
    expect(answer, {"success": True, "worker": name, "bead_id": bead_id}, "the answer")
    expected = {"status": "executing", "current_task": bead_id, "idle_seconds": COUNT}
    expect(bus.worker_view(name) or {}, expected, "the worker")


@TOOLS.add("ack-mismatch", "001", "BUS-05", "A wrong or repeated ack is refused: Task mismatch")
def ack_mismatch(harness: ServerHarness) -> None:
    bus = harness.bus()
    (bead_id, other), name = bus.add("a", "b"), bus.worker("w")
    bus.do("submit_task", bead_id=bead_id)
    bus.poll(name)
    mismatch = {"success": False, "error": "Task mismatch"}
    expect(bus.refused("ack_task", name=name, bead_id=other), mismatch, "the wrong ack")
    expect(bus.worker_view(name) or {}, {"status": "pending"}, "the worker")
    bus.do("ack_task", name=name, bead_id=bead_id)
    expect(bus.refused("ack_task", name=name, bead_id=bead_id), mismatch, "the repeated ack")


@TOOLS.add("done", "001", "BUS-06", "worker_done answers the document's JSON and frees the worker")
def done(harness: ServerHarness) -> None:
    bus = harness.bus()
    (bead_id,), name = bus.add("a"), bus.worker("w")
    bus.take(name, bead_id)
    answer = bus.do("worker_done", bead_id=bead_id)
    expect(answer, {"success": True, "bead_id": bead_id}, "the answer")
    expected = {"name": name, "status": "idle", "current_task": None, "idle_seconds": COUNT}
    expect(bus.worker_view(name) or {}, expected, "the worker")


@TOOLS.add(
    "failed", "001", "BUS-06", "task_failed answers the document's JSON and frees the worker"
)
def failed(harness: ServerHarness) -> None:
    bus = harness.bus()
    (bead_id,), name = bus.add("a"), bus.worker("w")
    bus.take(name, bead_id)
    answer = bus.do("task_failed", bead_id=bead_id, reason="Build failed")
    expect(answer, {"success": True, "bead_id": bead_id, "status": "failed"}, "the answer")
    expect(bus.worker_view(name) or {}, {"status": "idle"}, "the worker")


@TOOLS.add("not-held", "001", "BUS-06", "A report on work that nobody holds changes nothing")
def not_held(harness: ServerHarness) -> None:
    bus = harness.bus()
    (bead_id,), name = bus.add("a"), bus.worker("w")
    for tool in ("worker_done", "task_failed"):
        expect(bus.refused(tool, bead_id=bead_id), {"success": False, "error": TEXT}, tool)
    bus.take(name, bead_id)
    bus.do("worker_done", bead_id=bead_id)
    expect(bus.refused("worker_done", bead_id=bead_id), {"success": False}, "the second report")


@TOOLS.add("late-report", "own", "BUS-09", "A report of an attempt that is over changes nothing")
def late_report(harness: ServerHarness) -> None:
    bus = harness.bus()
    (bead_id,), name = bus.add("a"), bus.worker("w")
    lost = bus.take(name, bead_id)
    if "epoch" not in lost:
        raise NotOffered("the deliveries have no epoch")
    bus.do("retry_task", bead_id=bead_id)
    other = bus.worker("w2")
    held = bus.poll(other).get("task") or {}
    expect(held, {"bead_id": bead_id}, "the task of another worker")
    bus.do("ack_task", name=other, bead_id=bead_id)
    if held.get("epoch", 0) <= lost["epoch"]:
        raise Broken(f"the next attempt has epoch {held.get('epoch')}, not more than the lost one")
    for tool in ("worker_done", "task_failed"):
        answer = bus.refused(tool, name=name, bead_id=bead_id, epoch=lost["epoch"])
        expect(answer, {"success": False}, f"{tool} of the lost attempt")
    expect(bus.worker_view(other) or {}, {"status": "executing"}, "the worker that holds it")


@TOOLS.add("reset", "001", "BUS-07", "reset_worker frees a worker and answers its parked poll")
def reset(harness: ServerHarness) -> None:
    bus = harness.bus()
    (bead_id,), name = bus.add("a"), bus.worker("w")
    bus.take(name, bead_id)
    bus.do("reset_worker", worker_name=name)
    view = bus.worker_view(name) or {}
    if view.get("current_task") == bead_id and view.get("status") == "executing":
        raise Broken(f"the worker still executes: {view}")
    idle = bus.worker("idle")
    bus.do("ack_task", name=idle, bead_id=str((bus.poll(idle).get("task") or {}).get("bead_id")))
    parked = bus.park(name)
    bus.do("reset_worker", worker_name=name)
    expect(parked.answer(harness.seconds), {"task": None}, "the parked poll")


@TOOLS.add("retry", "001", "BUS-07", "retry_task queues a stuck task again")
def retry(harness: ServerHarness) -> None:
    bus = harness.bus()
    (bead_id,), name = bus.add("a"), bus.worker("w")
    bus.take(name, bead_id)
    answer = bus.do("retry_task", bead_id=bead_id)
    expect(answer, {"success": True, "bead_id": bead_id}, "the answer")
    other = bus.worker("w2")
    expect(bus.poll(other).get("task") or {}, {"bead_id": bead_id}, "the task of another worker")
