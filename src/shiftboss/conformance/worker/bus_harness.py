"""The harness of a bus worker: tasks whose titles are instructions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from shiftboss.conformance.checks import Broken
from shiftboss.conformance.exchanges import Exchange
from shiftboss.conformance.faults import Fault
from shiftboss.conformance.worker.harness import (
    HEARTBEAT_SECONDS,
    WORKER,
    OutcomeReport,
    WorkerHarness,
)

OTHER_WORKER: Final = "conformance-other"
_ENDINGS: Final = {"worker_done": "done", "task_failed": "failed"}


class WaitingTask(NamedTuple):
    """`position` on the wire is from before it was submitted. The worker waits for `go`."""

    bead_id: str
    position: int
    go: Path


class BusHarness(WorkerHarness):
    def prepare(self) -> None:
        self.calls.post("/swarm/create", {"swarm_id": self.swarm})

    def start_bus_worker(self) -> None:
        self.start_worker(
            {
                "SHIFTBOSS_WORKER": WORKER,
                "SHIFTBOSS_HEARTBEAT_SECONDS": f"{HEARTBEAT_SECONDS:g}",
            }
        )

    def recover(self) -> None:
        """Nothing that the worker holds, and no task that it was given, meets the next check."""
        super().recover()
        for task in self.operator("list_tasks", limit=500)["tasks"]:
            if task["status"] not in ("done", "failed", "cancelled"):
                self.operator("cancel_task", bead_id=task["bead_id"])
        self._reset(WORKER)

    def idle(self) -> int:
        """Wait until the worker waits for a task. Returns the position on the wire."""
        if self.worker is None or self.ended():
            self.start_bus_worker()
        self.wait("a poll of the worker", self._parked_poll)
        return self.wire_position()

    def _parked_poll(self) -> Exchange | None:
        polls = [exchange for exchange in self.proxy.exchanges if exchange.operation == "poll_task"]
        return polls[-1] if polls and polls[-1].is_open else None

    # tasks

    def submit(self, title: str) -> str:
        bead_id = f"task-{self.number()}"
        self.operator("add_task", bead_id=bead_id, title=title)
        self.operator("submit_task", bead_id=bead_id)
        return bead_id

    def start_waiting(self) -> WaitingTask:
        """Give the worker a task that takes until a file is there."""
        position = self.idle()
        go = self.folder / f"go-{self.number()}"
        bead_id = self.submit(f"wait {go}")
        self.ack_of(bead_id, position)
        return WaitingTask(bead_id, position, go)

    def task(self, bead_id: str) -> dict[str, Any]:
        return self.operator("show_task", bead_id=bead_id)

    def wait_for_status(self, bead_id: str, status: str) -> None:
        def found() -> bool | None:
            return True if self.task(bead_id)["status"] == status else None

        self.wait(f"the task is {status} on the server", found)

    # what the worker sends about a task

    def ack_of(self, bead_id: str, position: int) -> Exchange:
        """The acknowledgement that was accepted."""

        def accepted(exchange: Exchange) -> bool:
            return exchange.bead_id == bead_id and not exchange.is_open and exchange.is_success

        return self.next_of("ack_task", position, f"ack_task for {bead_id}", accepted)

    def reports_of(self, bead_id: str, position: int = 0) -> list[OutcomeReport]:
        reports = (report_of(exchange) for exchange in self.proxy.exchanges[position:])
        return [
            report
            for report in reports
            if report is not None and report.exchange.bead_id == bead_id
        ]

    def report_on(self, bead_id: str, position: int) -> OutcomeReport:
        """The first report on the task that was answered."""

        def found() -> OutcomeReport | None:
            reports = self.reports_of(bead_id, position)
            return next((report for report in reports if report.exchange.is_final), None)

        return self.wait(f"worker_done or task_failed for {bead_id}", found)

    def completes(self, title: str = "done") -> str:
        """The worker takes one more task and finishes it: it is still of use."""
        position = self.wire_position()
        bead_id = self.submit(title)
        report = self.report_on(bead_id, position)
        if report.outcome != "done":
            raise Broken(f"the task {title!r} was reported failed: {report.reason}")
        return bead_id

    def idle_before(self, fault: Fault) -> int:
        """Like `idle`, with a poll that the fault applies to: one that was sent after it."""
        self.idle()
        self.proxy.inject(fault)
        self.completes()
        return self.idle()

    def hand_over(self, bead_id: str) -> None:
        """Another worker gets the task that the worker under test holds."""
        self.operator("register_worker", name=OTHER_WORKER)
        self.operator("reset_worker", worker_name=WORKER)
        task = self.operator("poll_task", name=OTHER_WORKER, timeout_ms=10_000)["task"]
        if task is None or task["bead_id"] != bead_id:
            raise Broken(f"the server gave {task} to the other worker, not {bead_id}")
        self.operator("ack_task", name=OTHER_WORKER, bead_id=bead_id, epoch=task["epoch"])

    @contextmanager
    def server_down(self) -> Iterator[None]:
        """The server is killed, and in the end started again, whatever the worker does."""
        self.server.kill()
        try:
            yield
        finally:
            self.server.start()

    def lost_since(self, position: int) -> bool:
        """Whether a request got no answer."""
        later = self.proxy.exchanges[position:]
        return any(not exchange.is_open and not exchange.is_delivered for exchange in later)

    def _reset(self, name: str) -> None:
        self.calls.post("/bus/reset_worker", {"swarm_id": self.swarm, "worker_name": name})


def report_of(exchange: Exchange) -> OutcomeReport | None:
    """A report that ends a task: of the bus, or as a message."""
    if exchange.operation in _ENDINGS:
        reason = str(exchange.arguments.get("reason", ""))
        return OutcomeReport(exchange, _ENDINGS[exchange.operation], reason)
    if exchange.message.get("type") == "complete":
        return OutcomeReport(exchange, "done", "")
    if exchange.message.get("type") == "failed":
        return OutcomeReport(exchange, "failed", str(exchange.message.get("error")))
    return None


def is_heartbeat(exchange: Exchange) -> bool:
    return exchange.operation == "heartbeat" or exchange.message.get("type") == "heartbeat"
