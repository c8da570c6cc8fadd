"""One report from the worker to the server: recorded first, then delivered or left waiting."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import Any, Final, Self

from pydantic import model_validator
from pydantic_core import PydanticCustomError

from shiftboss.protocol.checkpoint import checkpoint_of
from shiftboss.protocol.fields import SwarmId, TasksCompleted
from shiftboss.protocol.reports import (
    CompleteRequest,
    ErrorRequest,
    ProgressRequest,
    RegisterRequest,
    Report,
)
from shiftboss.worker import departure
from shiftboss.worker.deliverer import Deliverer
from shiftboss.worker.exchange import ServerUnreachable
from shiftboss.worker.files import LockHeldError
from shiftboss.worker.journal import Journal, Recorded
from shiftboss.worker.outbox import Entry
from shiftboss.worker.redelivery import Redelivery
from shiftboss.worker.server_address import Server

_OPERATION_OF: Final = {
    RegisterRequest: "register",
    ProgressRequest: "progress",
    CompleteRequest: "complete",
    ErrorRequest: "error",
}


class Standing(RegisterRequest):
    """A packet, its swarm and how far it has come."""

    swarm_id: SwarmId
    tasks_completed: TasksCompleted

    @model_validator(mode="after")
    def _no_more_completed_than_there_are(self) -> Self:
        if self.tasks_completed > self.tasks_total:
            raise PydanticCustomError(
                "tasks_completed",
                "tasks_completed must not be more than tasks_total ({tasks_total})",
                {"tasks_total": self.tasks_total},
            )
        return self


class Reporter:
    """Synchronous, for one thread: the worker's own."""

    def __init__(self, packet: RegisterRequest, server: Server) -> None:
        self._journal = Journal(packet.worktree, packet.packet_id, packet.packet_name)
        self._deliverer = Deliverer(self._journal.outbox, server)
        self._redelivery = Redelivery(self._deliverer)

    def record(self, standing: Standing, report: Report, *, keep_checkpoint: bool) -> Recorded:
        entry = Entry.model_validate(
            {
                "swarm_id": standing.swarm_id,
                "operation": _OPERATION_OF[type(report)],
                "key": uuid.uuid4().hex,
                "body": report.model_dump(exclude_none=True),
            }
        )
        checkpoint = checkpoint_of(
            report,
            packet_name=standing.packet_name,
            tasks_completed=standing.tasks_completed,
            tasks_total=standing.tasks_total,
            now=datetime.now(UTC),
        )
        departure.watch(self._journal.outbox, self._deliverer.server)
        return self._journal.record(entry, None if keep_checkpoint else checkpoint)

    def deliver(self, recorded: Recorded, *, at_once: bool = False) -> dict[str, Any]:
        """The server's answer. While older reports wait for a server that is away, there is no
        further try unless it is asked for: the caller goes on."""
        entry = recorded.entry
        if at_once or not self._redelivery.is_active():
            try:
                return self._deliverer.deliver(entry)
            except (ServerUnreachable, LockHeldError):
                self._redelivery.start()
        return {"acknowledged": False, "queued": True, "packet_id": entry.body["packet_id"]}

    def undo(self, recorded: Recorded) -> None:
        self._journal.undo(recorded)

    def status(self, swarm_id: str) -> dict[str, Any]:
        return self._deliverer.status(swarm_id)

    def close(self) -> None:
        self._redelivery.stop()
        departure.leave(self._journal.outbox)
