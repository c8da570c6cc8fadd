"""One report from the worker to the server: recorded on disk first, then delivered or queued."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import Any, Final, Self

from pydantic import model_validator
from pydantic_core import PydanticCustomError

from shiftboss.client.backoff import Deadline
from shiftboss.client.http_client import new_idempotency_key
from shiftboss.client.servers import Servers
from shiftboss.protocol.fields import SwarmId, TasksCompleted
from shiftboss.protocol.packets import (
    CompleteRequest,
    ErrorRequest,
    ProgressRequest,
    RegisterRequest,
    Report,
    checkpoint_of,
)
from shiftboss.worker.background_delivery import (
    BackgroundDelivery,
    start_courier_at_exit,
    start_courier_now,
)
from shiftboss.worker.delivery import NOT_DELIVERED, OutboxDelivery
from shiftboss.worker.outbox import Entry
from shiftboss.worker.report_journal import RecordedReport, ReportJournal

log = logging.getLogger(__name__)

_OPERATION_OF: Final = {
    RegisterRequest: "register",
    ProgressRequest: "progress",
    CompleteRequest: "complete",
    ErrorRequest: "error",
}


class PacketProgress(RegisterRequest):
    """A packet of a swarm, and how many of its tasks are completed."""

    swarm_id: SwarmId
    tasks_completed: TasksCompleted

    @model_validator(mode="after")
    def _check_tasks_completed(self) -> Self:
        if self.tasks_completed > self.tasks_total:
            raise PydanticCustomError(
                "tasks_completed",
                "tasks_completed must not be more than tasks_total ({tasks_total})",
                {"tasks_total": self.tasks_total},
            )
        return self

    def registration(self) -> RegisterRequest:
        return RegisterRequest(
            packet_id=self.packet_id,
            packet_name=self.packet_name,
            tasks_total=self.tasks_total,
            worktree=self.worktree,
        )


class Reporter:
    """The reports of one packet. Not thread-safe: the worker calls it from one thread."""

    def __init__(self, packet: RegisterRequest, servers: Servers) -> None:
        self._journal = ReportJournal(packet.worktree, packet.packet_id, packet.packet_name)
        self._outbox = self._journal.outbox
        self._delivery = OutboxDelivery(self._outbox, servers)
        self._background = BackgroundDelivery(self._delivery)
        self._warned_of: frozenset[str] = frozenset()

    def record(
        self, packet: PacketProgress, report: Report, *, keep_checkpoint: bool
    ) -> RecordedReport:
        self._warn_of_rejected()
        entry = Entry.model_validate(
            {
                "swarm_id": packet.swarm_id,
                "operation": _OPERATION_OF[type(report)],
                "key": new_idempotency_key(),
                "body": report.model_dump(exclude_none=True),
            }
        )
        checkpoint = None if keep_checkpoint else _checkpoint(packet, report)
        recorded = self._journal.record(entry, checkpoint)
        start_courier_at_exit(self._outbox, self._delivery.servers)
        return recorded

    def deliver(
        self, recorded: RecordedReport, deadline: Deadline, *, at_once: bool = False
    ) -> dict[str, Any]:
        """The server's answer, or that the report is queued.

        While the background thread retries older reports, this does not try as well, unless
        `at_once`: a server that is down must not slow the caller.
        """
        entry = recorded.entry
        if at_once or self._delivery.is_connected or not self._background.is_active():
            try:
                return self._delivery.deliver(entry, deadline)
            except NOT_DELIVERED:
                self._background.start()
            finally:
                if self._delivery.has_blocked_reports:
                    self._background.start()
        return {"acknowledged": False, "queued": True, "packet_id": entry.body["packet_id"]}

    def undo(self, recorded: RecordedReport) -> None:
        self._journal.undo(recorded)

    def correct_checkpoint(self, packet: PacketProgress, report: Report) -> None:
        """Write the checkpoint of a report that the server already has."""
        self._journal.correct(_checkpoint(packet, report))

    def status(self, swarm_id: str, deadline: Deadline) -> dict[str, Any]:
        return self._delivery.status(swarm_id, deadline)

    def close(self) -> None:
        self._background.stop()
        start_courier_now(self._outbox)

    def _warn_of_rejected(self) -> None:
        """These were refused while no caller was there to get the error."""
        rejected = self._outbox.rejected()
        if rejected - self._warned_of:
            log.warning(
                "the server refused %d reports; they are in %s",
                len(rejected),
                self._outbox.rejected_folder,
            )
        self._warned_of = rejected


def _checkpoint(packet: PacketProgress, report: Report) -> dict[str, object]:
    return checkpoint_of(
        report,
        packet_name=packet.packet_name,
        tasks_completed=packet.tasks_completed,
        tasks_total=packet.tasks_total,
        now=datetime.now(UTC),
    )
