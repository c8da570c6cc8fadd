"""One report from the worker to the server: recorded first, then delivered or left waiting."""

from __future__ import annotations

import atexit
import logging
import os
import subprocess
import sys
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Self

from pydantic import model_validator
from pydantic_core import PydanticCustomError

from shiftboss.client.backoff import Deadline
from shiftboss.client.server_address import Server
from shiftboss.protocol.fields import SwarmId, TasksCompleted
from shiftboss.protocol.packets import (
    CompleteRequest,
    ErrorRequest,
    ProgressRequest,
    RegisterRequest,
    Report,
    checkpoint_of,
)
from shiftboss.worker.background_delivery import BackgroundDelivery
from shiftboss.worker.delivery import NOT_THROUGH, Delivery
from shiftboss.worker.journal import Journal, Recorded
from shiftboss.worker.outbox import Entry, Outbox

# The end of a process: what was not delivered is left to a courier.


log = logging.getLogger(__name__)

_watched: dict[Path, Server] = {}


def watch(outbox: Outbox, server: Server) -> None:
    """Start a courier for this outbox at the end, if something waits in it then."""
    if os.environ.get("SHIFTBOSS_COURIER") != "0":
        _watched[outbox.folder] = server


def leave(outbox: Outbox) -> None:
    """The end has come for this outbox."""
    server = _watched.pop(outbox.folder, None)
    if server is not None and outbox.files():
        _start_courier(outbox, server)


@atexit.register
def _leave_all() -> None:
    for folder in list(_watched):
        try:
            leave(Outbox(folder))
        except Exception:
            # The outboxes of the other workers still wait for their couriers.
            log.exception("reports may stay in %s", folder)


def _start_courier(outbox: Outbox, server: Server) -> None:
    # -P: the folder that this process was started in may be an agent's, with modules of its own.
    module = [sys.executable, "-P", "-m", "shiftboss.worker.courier"]
    token = {"SHIFTBOSS_TOKEN": server.token} if server.token else {}
    try:
        subprocess.run(
            [*module, str(outbox.folder), server.address],
            env=os.environ | token,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            check=False,
        )
    except OSError as error:
        log.warning("reports stay in %s, no courier could start: %s", outbox.folder, error)


log = logging.getLogger(__name__)

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

    def registration(self) -> RegisterRequest:
        return RegisterRequest(
            packet_id=self.packet_id,
            packet_name=self.packet_name,
            tasks_total=self.tasks_total,
            worktree=self.worktree,
        )


class Reporter:
    """Synchronous, for one thread: the worker's own."""

    def __init__(self, packet: RegisterRequest, server: Server) -> None:
        self._journal = Journal(packet.worktree, packet.packet_id, packet.packet_name)
        self._outbox = self._journal.outbox
        self._deliverer = Delivery(self._outbox, server)
        self._redelivery = BackgroundDelivery(self._deliverer)
        self._told_of: frozenset[str] = frozenset()

    def record(self, standing: Standing, report: Report, *, keep_checkpoint: bool) -> Recorded:
        self._tell_of_rejected()
        entry = Entry.model_validate(
            {
                "swarm_id": standing.swarm_id,
                "operation": _OPERATION_OF[type(report)],
                "key": uuid.uuid4().hex,
                "body": report.model_dump(exclude_none=True),
            }
        )
        checkpoint = None if keep_checkpoint else _checkpoint(standing, report)
        recorded = self._journal.record(entry, checkpoint)
        watch(self._outbox, self._deliverer.server)
        return recorded

    def deliver(
        self, recorded: Recorded, deadline: Deadline, *, at_once: bool = False
    ) -> dict[str, Any]:
        """The server's answer. While older reports wait for a server that is away, there is no
        further try unless it is asked for: the caller goes on."""
        entry = recorded.entry
        if at_once or self._deliverer.got_through or not self._redelivery.is_active():
            try:
                return self._deliverer.deliver(entry, deadline)
            except NOT_THROUGH:
                self._redelivery.start()
            finally:
                if self._deliverer.holds_back:
                    self._redelivery.start()
        return {"acknowledged": False, "queued": True, "packet_id": entry.body["packet_id"]}

    def undo(self, recorded: Recorded) -> None:
        self._journal.undo(recorded)

    def correct(self, standing: Standing, report: Report) -> None:
        """Let the checkpoint tell of this report, which the server has already."""
        self._journal.correct(_checkpoint(standing, report))

    def status(self, swarm_id: str, deadline: Deadline) -> dict[str, Any]:
        return self._deliverer.status(swarm_id, deadline)

    def close(self) -> None:
        self._redelivery.stop()
        leave(self._outbox)

    def _tell_of_rejected(self) -> None:
        """They were refused when no caller was there to be told."""
        rejected = self._outbox.rejected()
        if rejected - self._told_of:
            log.warning(
                "%d reports were not accepted; they lie in %s",
                len(rejected),
                self._outbox.rejected_folder,
            )
        self._told_of = rejected


def _checkpoint(standing: Standing, report: Report) -> dict[str, object]:
    return checkpoint_of(
        report,
        packet_name=standing.packet_name,
        tasks_completed=standing.tasks_completed,
        tasks_total=standing.tasks_total,
        now=datetime.now(UTC),
    )
